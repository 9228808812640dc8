package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
	"github.com/zoomies-fleet/zoomies/controller/config"
)

// nounOf returns the kind of object of that name, when its objects can be called by name or ID.
func nounOf(one string) *noun {
	for _, n := range nouns {
		if strings.ReplaceAll(n.one, " ", "_") == one {
			return n
		}
	}
	return nil
}

// object is what a list says of an object, as far as naming it goes.
type object map[string]any

func (o object) text(key string) string {
	s, _ := o[key].(string)
	return s
}

// find returns the ID of an object that was named by its ID or its name.
func (a *app) find(ctx context.Context, c *client.Client, n *noun, text string) (string, error) {
	if n.name == "" || strings.HasPrefix(text, n.prefix) && text != n.prefix {
		return text, nil
	}
	if _, served := operations[n.list]; !served {
		return "", usagef("cannot look for the %s %s by name: give its ID", n.one, text)
	}
	all, err := a.objects(ctx, c, n, text)
	if err != nil {
		return "", err
	}
	var names, ids []string
	for _, o := range all {
		names = append(names, o.text(n.name))
		if o.text(n.name) == text {
			ids = append(ids, o.text("id"))
		}
	}
	switch len(ids) {
	case 0:
		if len(all) == 0 && a.filtersByName(n) { // the list was asked for that name alone: look what others there are
			if others, err := a.objects(ctx, c, n, ""); err == nil {
				for _, o := range others {
					names = append(names, o.text(n.name))
				}
			}
		}
		return "", notFoundError{"there is no " + n.one + " " + text + didYouMean(text, names)}
	case 1:
		return ids[0], nil
	}
	return "", usagef("%s is the name of %d %ss: use one of the IDs %s", text, len(ids), n.one, strings.Join(ids, ", "))
}

func (a *app) filtersByName(n *noun) bool {
	return slices.ContainsFunc(operations[n.list].query, func(f field) bool { return f.name == n.name })
}

// objects lists a kind of object: those of that name where the API can tell them apart, or all.
func (a *app) objects(ctx context.Context, c *client.Client, n *noun, name string) ([]object, error) {
	op := operations[n.list]
	q := url.Values{}
	if name != "" && a.filtersByName(n) {
		q.Set(n.name, name)
	}
	if slices.ContainsFunc(op.query, func(f field) bool { return f.name == "limit" }) {
		q.Set("limit", "500")
	}
	return client.All[object](ctx, c, op.path, q)
}

// completeFirst lets the shell offer an object's names for a command's first argument.
func (a *app) completeFirst(n *noun) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	offer := a.completeNames(n)
	return func(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offer(cmd, args, text)
	}
}

// completeNames lets the shell offer an object's names. It is quick or says nothing.
func (a *app) completeNames(n *noun) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		c, err := a.client()
		if err != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		all, err := a.objects(ctx, c, n, "")
		if err != nil {
			return nil, none
		}
		var out []string
		for _, o := range all {
			if name := o.text(n.name); n.name != "" && name != "" {
				out = append(out, name)
				continue
			}
			out = append(out, o.text("id"))
		}
		return out, none
	}
}

// nameAll learns the names of what a list's rows refer to, so that a table can show them.
func (a *app) nameAll(ctx context.Context, c *client.Client, n *noun, items []json.RawMessage) error {
	if a.flags.output != outputTable || a.flags.quiet || n == nil || len(items) == 0 {
		return nil
	}
	for _, col := range n.cols {
		base, ok := strings.CutSuffix(col.key, "_id")
		of := nounOf(base)
		if !ok || of == nil || of.name == "" {
			continue
		}
		if _, served := operations[of.list]; !served {
			continue
		}
		all, err := a.objects(ctx, c, of, "")
		if err != nil {
			if p, refused := problemIn(err); refused && p.Status == http.StatusForbidden {
				continue // the IDs are shown
			}
			return err
		}
		for _, o := range all {
			a.names[o.text("id")] = o.text(of.name)
		}
	}
	return nil
}

// didYouMean names what comes nearest.
func didYouMean(text string, names []string) string {
	best, least := "", 1+max(2, len(text)/4)
	for _, n := range names {
		d := config.Distance(strings.ToLower(text), strings.ToLower(n))
		if text != "" && strings.HasPrefix(n, text) {
			d = 1 // the beginning of a name
		}
		if d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}
