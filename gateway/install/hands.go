package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/zoomies-fleet/zoomies/gateway"
)

// Do carries a plan of Install out. It stops at the first step that fails; the same plan, made anew, goes on from there.
func (h *Host) Do(ctx context.Context, a Answers, f Facts, p Plan, j Journal) error {
	j.Name = a.Name
	for _, s := range p.Steps {
		fmt.Fprintf(h.Out, "  %s\n", s.What)
		if s.Makes != nil && j.add(*s.Makes) {
			if err := errors.Join(h.dies(), h.keep(j), h.dies()); err != nil {
				return err
			}
		}
		var err error
		switch {
		case s.Token != nil:
			err = h.makeToken(ctx, s.Token)
		case s.Post:
			err = h.post(ctx, a, f, p, &j)
		case s.Await:
			_, err = h.await(ctx, "the controller cannot reach the gateway", func(st gateway.Status) bool { return st.Status == gateway.Ready || st.Status == gateway.Failing })
		default:
			err = h.step(ctx, s)
		}
		if err = errors.Join(err, h.dies()); err != nil {
			return fmt.Errorf("cannot %s: %w; when that is mended, run the same command again", s.What, err)
		}
	}
	return nil
}

func (h *Host) dies() error {
	if h.point == nil {
		return nil
	}
	return h.point()
}

func (h *Host) step(ctx context.Context, s Step) error {
	switch {
	case s.Run != nil:
		if strings.Join(s.Run, " ") == "systemctl restart "+UnitName {
			// What an earlier gateway said of itself must not be taken for this one's.
			if err := os.Remove(h.at(StateDir + "/" + gateway.StatusFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		_, err := h.command(ctx, s.Run)
		return err
	case s.Write != nil:
		if err := h.folder(dirOf(s.Write.Path), 0o755); err != nil {
			return err
		}
		return h.write(s.Write.Path, s.Write.Mode, []byte(s.Write.Text))
	case s.Folder != nil:
		return h.folder(s.Folder.Path, s.Folder.Mode)
	case s.Copy != "":
		return h.copySelf(s.Copy, ProgramFile)
	case s.Remove != "":
		return os.RemoveAll(h.at(s.Remove))
	case s.Makes != nil: // it was only noted
		return nil
	}
	return errors.New("the step does nothing")
}

func dirOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// makeToken makes the token and keeps its secret, so that it is not lost before the controller has it.
func (h *Host) makeToken(ctx context.Context, argv []string) error {
	out, err := h.command(ctx, argv)
	if err != nil {
		return err
	}
	if err := h.dies(); err != nil {
		return err
	}
	var made struct {
		Value string `json:"value"`
	}
	if err := json.Unmarshal(out, &made); err != nil || made.Value == "" {
		return errors.New("pveum printed no token") // what it printed may be one
	}
	return h.write(secretFile, 0o600, []byte(made.Value+"\n"))
}

// post gives the connection to the controller once the gateway has said its address.
func (h *Host) post(ctx context.Context, a Answers, f Facts, p Plan, j *Journal) error {
	st, err := h.await(ctx, "the gateway does not start", func(st gateway.Status) bool { return st.Address != "" })
	if err != nil {
		return err
	}
	secret, err := os.ReadFile(h.at(secretFile))
	if err != nil {
		return err
	}
	err = h.Post(ctx, a.Capability, Connection{
		Endpoint: endpoint(f.Cert.Name), CA: f.Cert.CA, Fingerprint: f.Cert.Fingerprint, Node: f.Node, Version: f.Release, TokenID: a.TokenID(),
		TokenSecret: strings.TrimSpace(string(secret)), Gateway: st.Address, Pool: a.Pool, Storages: p.Storages, Bridge: a.Bridge,
	})
	if err = errors.Join(err, h.dies()); err != nil {
		return err
	}
	j.Posted = hashOf(a.Capability)
	return h.keep(*j)
}

func endpoint(name string) string {
	if strings.Contains(name, ":") { // an address of IPv6
		name = "[" + name + "]"
	}
	return "https://" + name + ":" + apiPort
}

// Undo carries a plan of Uninstall out. What could not be removed stays written down, and is named.
func (h *Host) Undo(ctx context.Context, p Plan, j Journal) error {
	var left []string
	for _, s := range p.Steps {
		fmt.Fprintf(h.Out, "  %s\n", s.What)
		err := h.step(ctx, s)
		switch {
		case err != nil && s.Always:
			fmt.Fprintf(h.Out, "    which did not work: %v\n", err)
			left = append(left, s.What)
			continue
		case err != nil:
			return fmt.Errorf("cannot %s: %w; when that is mended, run the same command again", s.What, err)
		}
		if err := h.dies(); err != nil {
			return err
		}
		if s.Ends != nil {
			j.drop(*s.Ends)
			if err := errors.Join(h.keep(j), h.dies()); err != nil {
				return err
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("some of it stays: could not %s; mend that and run the same command again", strings.Join(left, ", "))
	}
	if err := os.Remove(h.at(JournalFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if j.Has(Thing{AFolder, KeepDir}) {
		return os.RemoveAll(h.at(KeepDir))
	}
	return nil
}

// Show prints a plan: every command that reads, and every one that would change something.
func Show(out io.Writer, f Facts, p Plan) {
	fmt.Fprintln(out, "These only read, and were run:")
	asked := [][]string{ask.version, ask.pools, ask.users, ask.roles, ask.grants, ask.storages, askBridges(f.Node)}
	for _, argv := range asked {
		fmt.Fprintf(out, "      %s\n", Quoted(argv))
	}
	fmt.Fprintln(out, "These would change something, and were not run:")
	for i, s := range p.Steps {
		fmt.Fprintf(out, "%2d. %s\n", i+1, s.What)
		switch {
		case s.Run != nil:
			fmt.Fprintf(out, "      %s\n", Quoted(s.Run))
		case s.Token != nil:
			fmt.Fprintf(out, "      %s\n", Quoted(s.Token))
		case s.Write != nil:
			fmt.Fprintf(out, "      %s (mode %04o):\n        %s\n", s.Write.Path, s.Write.Mode, strings.ReplaceAll(strings.TrimRight(s.Write.Text, "\n"), "\n", "\n        "))
		case s.Remove != "":
			fmt.Fprintf(out, "      %s\n", s.Remove)
		}
	}
	for _, n := range p.Notes {
		fmt.Fprintln(out, n)
	}
}
