package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

const pathStatus = "/api/v1/status"

func statusCommand(a *app) *cobra.Command {
	op, ok := operations["get-status"]
	if !ok {
		return nil
	}
	c := &cobra.Command{
		Use: "status", Short: "Say in one screen whether the fleet is all right", Args: usage(cobra.NoArgs),
		Long:        op.summary + ".\n\nEnds with 0 when it is, with 10 when something needs attention, and with 11 when the fleet does not work.",
		Annotations: map[string]string{annotationOperation: "get-status"},
		RunE: a.with(func(ctx context.Context, c *client.Client, cmd *cobra.Command, _ []string) error {
			raw, err := c.Call(ctx, http.MethodGet, pathStatus, nil, nil)
			if err != nil {
				return err
			}
			var s struct {
				Level string `json:"level"`
			}
			if err := json.Unmarshal(raw, &s); err != nil {
				return fmt.Errorf("cannot read the answer: %w", err)
			}
			switch {
			case a.flags.quiet:
				fmt.Fprintln(cmd.OutOrStdout(), s.Level)
			case a.flags.output != outputTable:
				err = a.showRaw(cmd.OutOrStdout(), raw)
			default:
				err = a.screen(cmd.OutOrStdout(), raw)
			}
			if err != nil {
				return err
			}
			return levelError(s.Level)
		}),
	}
	return a.connected(c)
}

// levelError is the status that a verdict ends the command with.
func levelError(level string) error {
	switch level {
	case "ok":
		return nil
	case "attention":
		return codeError(ExitAttention)
	}
	return codeError(ExitBroken)
}

// counted are the parts of the status that count things.
var counted = []column{{"Jobs", "jobs"}, {"Runners", "runners"}, {"Hosts", "hosts"}, {"Pools", "pools"}, {"Problems", "problems"}}

// screen shows the fleet's state: the verdict first.
func (a *app) screen(w io.Writer, raw json.RawMessage) error {
	o, err := decode(raw)
	if err != nil {
		return err
	}
	level := o.text("level")
	fmt.Fprintf(w, "%s  %s\n\n", paint(w, level, strings.ToUpper(level)), oneLine(o.text("verdict")))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range counted {
		if m, ok := o[c.key].(map[string]any); ok {
			fmt.Fprintf(t, "%s\t%s\n", c.head, counts(m))
		}
	}
	for _, in := range rows(o, "installations") {
		text := "webhooks " + in.text("webhooks")
		if at := in.text("last_delivery_at"); at != "" {
			text += ", last " + a.cell(at, "last_delivery_at")
		}
		if until := in.text("held_until"); until != "" {
			text += ", GitHub asks to wait until " + clockTime(until)
		}
		fmt.Fprintf(t, "Installation\t%s: %s\n", oneLine(in.text("name")), text)
	}
	fmt.Fprintf(t, "Controller\t%s, up %s\n", oneLine(o.text("version")), o.text("uptime"))
	return t.Flush()
}

// counts says how many there are of what, without what there is none of.
func counts(o object) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if n := fmt.Sprint(o[key]); n != "0" {
			parts = append(parts, n+" "+strings.ReplaceAll(key, "_", " "))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// paint colours a word where that is wanted.
func paint(w io.Writer, level, text string) string {
	code := map[string]string{"ok": "32", "attention": "33", "warning": "33", "broken": "31", "error": "31"}[level]
	if code == "" || !colours(w) {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func eventsCommand(a *app) *cobra.Command {
	var after string
	c := &cobra.Command{
		Use: "events", Short: "Follow every change as it happens", Args: usage(cobra.NoArgs),
		Long: "Follow every change as it happens, until it is interrupted. When the connection breaks it goes on where it was.\n" +
			"With --output json each event is one line.",
		Annotations: map[string]string{annotationOperation: "watch-events"},
		RunE: a.with(func(ctx context.Context, c *client.Client, cmd *cobra.Command, _ []string) error {
			for e, err := range c.Follow(ctx, client.PathEvents, a.following(cmd, client.FollowOptions{After: after})) {
				if ctx.Err() != nil {
					return nil // told to stop
				}
				if err != nil {
					return err
				}
				if err := a.showEvent(cmd.OutOrStdout(), e); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.Flags().StringVar(&after, "after", "", "ID of an event: show what came after it, as far as the controller remembers")
	return a.connected(c)
}

// following tells of breaks.
func (a *app) following(cmd *cobra.Command, o client.FollowOptions) client.FollowOptions {
	if a.flags.quiet {
		return o
	}
	o.Retry = retryNote(cmd.ErrOrStderr())
	return o
}

func (a *app) showEvent(w io.Writer, e client.Event) error {
	data := json.RawMessage(e.Data)
	if !json.Valid(data) {
		data, _ = json.Marshal(string(e.Data)) // a string is always JSON
	}
	switch {
	case a.flags.quiet:
		fmt.Fprintln(w, e.ID)
		return nil
	case a.flags.output == outputJSON:
		line, err := json.Marshal(struct {
			ID   string          `json:"id"`
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		}{e.ID, e.Type, data})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", line)
		return err
	case a.flags.output == outputYAML:
		fmt.Fprintln(w, "---")
		return a.showRaw(w, data)
	}
	o, err := decode(data)
	if err != nil {
		o = object{}
	}
	_, err = fmt.Fprintf(w, "%s  %-22s %s\n", a.now().Format("15:04:05"), e.Type, oneLine(subjectOf(o)))
	return err
}

// subjectOf is what an event is about, in a few words.
func subjectOf(o object) string {
	var parts []string
	for _, key := range []string{"id", "name", "state", "health", "conclusion", "verdict", "reason"} {
		if s := o.text(key); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "  ")
}

// readData is the body that --data names: the text itself, @file, or - for the standard input.
func readData(cmd *cobra.Command, data string) ([]byte, error) {
	switch {
	case data == "-":
		return io.ReadAll(cmd.InOrStdin())
	case strings.HasPrefix(data, "@"):
		return os.ReadFile(data[1:])
	}
	return []byte(data), nil
}

func apiCommand(a *app) *cobra.Command {
	var data string
	c := &cobra.Command{
		Use: "api METHOD PATH", Short: "Make a request to the API, and show its answer as it is", Args: usage(cobra.ExactArgs(2)),
		Example: "  zoomies api GET /api/v1/pools\n  zoomies api PATCH /api/v1/pools/pool_… --data '{\"max\": 3}'",
		RunE: a.with(func(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string) error {
			method, path := strings.ToUpper(args[0]), args[1]
			if !strings.HasPrefix(path, "/") {
				return usagef("a path begins with /, such as /api/v1/pools")
			}
			var body any
			if data != "" {
				raw, err := readData(cmd, data)
				if err != nil {
					return fmt.Errorf("cannot read the request's body: %w", err)
				}
				if !json.Valid(raw) {
					return usagef("--data is no JSON")
				}
				body = json.RawMessage(raw)
			}
			raw, err := c.Call(ctx, method, path, nil, body)
			if err != nil {
				return err
			}
			if !json.Valid(raw) {
				_, err = cmd.OutOrStdout().Write(raw)
				return err
			}
			if a.flags.output == outputTable {
				a.flags.output = outputJSON
			}
			return a.showRaw(cmd.OutOrStdout(), raw)
		}),
	}
	c.Flags().StringVar(&data, "data", "", "the request's body: JSON, @file, or - for the standard input")
	return a.connected(c)
}
