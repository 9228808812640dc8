package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// rows are the objects in a list within an answer.
func rows(o object, key string) []object {
	list, _ := o[key].([]any)
	out := make([]object, 0, len(list))
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// findings shows what a check found.
func findings(_ *app, w io.Writer, raw json.RawMessage) error {
	o, err := decode(raw)
	if err != nil {
		return err
	}
	for _, f := range rows(o, "findings") {
		level := f.text("level")
		fmt.Fprintf(w, "%s  %s: %s\n", paint(w, level, fmt.Sprintf("%-7s", level)), f.text("code"), oneLine(f.text("detail")))
		if fix := f.text("fix"); fix != "" {
			fmt.Fprintf(w, "         fix: %s\n", oneLine(fix))
		}
	}
	return nil
}

// timeline shows steps with the time since the first.
func timeline(_ *app, w io.Writer, raw json.RawMessage) error {
	o, err := decode(raw)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AT\tAFTER\tWHAT\tWHY")
	for _, s := range rows(o, "steps") {
		fmt.Fprintln(t, strings.TrimRight(strings.Join([]string{clockTime(s.text("at")), milliseconds(s["after_ms"]), oneLine(s.text("what")), oneLine(s.text("why"))}, "\t"), "\t"))
	}
	return t.Flush()
}

func clockTime(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return t.Local().Format(time.DateTime) //nolint:gosmopolitan // it is for whoever sits at this terminal
}

func milliseconds(v any) string {
	n, ok := v.(json.Number)
	if !ok {
		return "-"
	}
	ms, err := n.Int64()
	if err != nil {
		return n.String()
	}
	return "+" + (time.Duration(ms) * time.Millisecond).String()
}

// explained says why a job waits, and what would have to change.
func explained(_ *app, w io.Writer, raw json.RawMessage) error {
	o, err := decode(raw)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, oneLine(o.text("why")))
	if change := o.text("change"); change != "" {
		fmt.Fprintln(w, "fix: "+oneLine(change))
	}
	if until := o.text("until"); until != "" {
		fmt.Fprintln(w, "until: "+clockTime(until))
	}
	pools := rows(o, "pools")
	if len(pools) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POOL\tTAKES IT\tWHY")
	for _, p := range pools {
		takes := "no"
		if yes, _ := p["takes"].(bool); yes {
			takes = "yes"
		}
		fmt.Fprintln(t, strings.TrimRight(p.text("name")+"\t"+takes+"\t"+oneLine(p.text("why")), "\t"))
	}
	return t.Flush()
}

// prewarmed says which hosts fetch an image.
func prewarmed(_ *app, w io.Writer, raw json.RawMessage) error {
	o, err := decode(raw)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HOST\tASKED\tWHY NOT")
	for _, h := range rows(o, "asked") {
		fmt.Fprintln(t, h.text("host")+"\tyes")
	}
	for _, h := range rows(o, "passed_over") {
		fmt.Fprintln(t, h.text("host")+"\tno\t"+oneLine(h.text("why")))
	}
	return t.Flush()
}

// troubles shows problems, each with why it matters, what to do and the command that does it.
func troubles(a *app, w io.Writer, items []json.RawMessage) error {
	if len(items) == 0 {
		fmt.Fprintln(w, "there is no problem")
	}
	for i, raw := range items {
		o, err := decode(raw)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		severity := o.text("severity")
		fmt.Fprintf(w, "%s  %s  %s", paint(w, severity, severity), o.text("code"), oneLine(o.text("title")))
		if name, _ := at(o, "subject.name").(string); name != "" {
			fmt.Fprintf(w, ": %s", oneLine(name))
		}
		if since := a.cell(o.text("since"), "since"); since != "-" {
			fmt.Fprintf(w, "  (%s)", since)
		}
		fmt.Fprintln(w)
		for _, line := range [][2]string{{"why", o.text("why")}, {"fix", o.text("fix")}} {
			if line[1] != "" {
				fmt.Fprintf(w, "  %s: %s\n", line[0], oneLine(line[1]))
			}
		}
		if command, ok := at(o, "remedy.command").(string); ok && command != "" {
			fmt.Fprintf(w, "  run: %s\n", oneLine(command))
		}
	}
	return nil
}
