package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

// noun is a kind of object.
type noun struct {
	one    string // "pool"
	prefix string // of its IDs, "pool_"
	list   string // the operation that lists them
	name   string // the field that people call them by; empty when they have none
	cols   []column
}

// verb is one command over one operation of the API.
type verb struct {
	op      string
	use     string   // the word, without its arguments
	noun    *noun    // what {id} in the path is, and what a list shows
	takes   []string // fields of the body that come as arguments, behind those of the path
	hide    []string // fields that have no flag
	docs    string   // operation whose words describe the fields, where this one's have none
	confirm string   // asked on a terminal before; %s is the object
	done    string   // said when it is done; %s is the object
	short   string   // instead of the operation's summary
	long    string
	example string
	set     map[string]any // fields of the body that are always so
	// show replaces how the answer is shown.
	show func(a *app, w io.Writer, raw json.RawMessage) error
	// rows replaces how a list is shown.
	rows func(a *app, w io.Writer, items []json.RawMessage) error
	// after runs when it is done: to wait, say. Its flags are added by flags.
	after   func(ctx context.Context, a *app, c *client.Client, cmd *cobra.Command, id string) error
	flags   func(*cobra.Command)
	more    string // said on the standard error after the answer
	verdict string // field of the answer that, when it is false, fails the command
}

var pathParam = regexp.MustCompile(`\{([a-z_]+)\}`)

// command makes the verb's command; nil while no controller serves its operation.
func (a *app) command(v verb) *cobra.Command {
	op, ok := operations[v.op]
	if !ok {
		return nil
	}
	params := pathParam.FindAllStringSubmatch(op.path, -1)
	use, takes := v.use, 0
	for _, p := range params {
		use += " " + v.placeholder(p[1])
		takes++
	}
	for _, t := range v.takes {
		use += " " + strings.ToUpper(strings.ReplaceAll(t, "_", "-"))
		takes++
	}
	c := &cobra.Command{Use: use, Short: v.short, Long: v.long, Example: v.example, Args: usage(cobra.ExactArgs(takes)), Annotations: map[string]string{annotationOperation: v.op}}
	if c.Short == "" {
		c.Short = op.summary
	}
	if c.Long == "" {
		c.Long = c.Short + ". " + op.need + "."
		c.Long = strings.ReplaceAll(c.Long, "..", ".")
	}
	if v.flags != nil {
		v.flags(c)
	}
	limit := 0
	isList := v.isList(op)
	if isList {
		c.Flags().IntVar(&limit, "limit", 100, "how many are shown at most; 0 is all")
	}
	in := a.fieldFlags(c, v, op)
	if len(params) > 0 && v.noun != nil {
		c.ValidArgsFunction = a.completeFirst(v.noun)
	}
	c.RunE = a.with(func(ctx context.Context, cl *client.Client, cmd *cobra.Command, args []string) error {
		path, id := op.path, ""
		for i, p := range params {
			value := args[i]
			if p[1] == "id" && v.noun != nil {
				found, err := a.find(ctx, cl, v.noun, value)
				if err != nil {
					return err
				}
				value, id = found, found
			}
			path = strings.Replace(path, p[0], url.PathEscape(value), 1)
		}
		query, body, err := in(ctx, cl, cmd, args[len(params):])
		if err != nil {
			return err
		}
		if isList {
			return a.list(ctx, cl, cmd, v, path, query, limit)
		}
		subject := ""
		if len(args) > 0 {
			subject = args[0]
		}
		if v.confirm != "" {
			if err := a.confirm(cmd, fmt.Sprintf(v.confirm, subject)); err != nil {
				return err
			}
		}
		var send any
		if op.hasBody {
			send = body
		}
		raw, err := cl.Call(ctx, op.method, path, query, send)
		if err != nil {
			return err
		}
		if v.after != nil {
			if err := v.after(ctx, a, cl, cmd, id); err != nil {
				return err
			}
		}
		if err := a.answer(cmd, v, op, subject, raw); err != nil || v.verdict == "" {
			return err
		}
		return verdictOf(raw, v.verdict)
	})
	return c
}

// verdictOf fails a command whose answer says no.
func verdictOf(raw json.RawMessage, key string) error {
	o, err := decode(raw)
	if err != nil {
		return err
	}
	if good, _ := o[key].(bool); !good {
		return codeError(ExitFailed)
	}
	return nil
}

// annotationOperation says which operation a command calls.
const annotationOperation = "operation"

func (v verb) placeholder(param string) string {
	if param == "id" && v.noun != nil {
		if v.noun.name != "" {
			return strings.ToUpper(strings.ReplaceAll(v.noun.one, " ", "-"))
		}
		return strings.ToUpper(strings.ReplaceAll(v.noun.one, " ", "-")) + "-ID"
	}
	return strings.ToUpper(strings.ReplaceAll(param, "_", "-"))
}

func (v verb) isList(op operation) bool {
	return op.method == http.MethodGet && slices.ContainsFunc(op.query, func(f field) bool { return f.name == "cursor" })
}

// list shows a list up to the limit.
func (a *app) list(ctx context.Context, c *client.Client, cmd *cobra.Command, v verb, path string, query url.Values, limit int) error {
	if limit < 0 {
		return usagef("--limit is 0 or more")
	}
	if limit > 0 && limit < 500 {
		query.Set("limit", fmt.Sprint(limit))
	} else {
		query.Set("limit", "500")
	}
	items := []json.RawMessage{}
	more := false
	for raw, err := range client.List[json.RawMessage](ctx, c, path, query) {
		if err != nil {
			return err
		}
		if limit > 0 && len(items) == limit {
			more = true
			break
		}
		items = append(items, raw)
	}
	if err := a.nameAll(ctx, c, v.noun, items); err != nil {
		return err
	}
	var err error
	if v.rows != nil && a.flags.output == outputTable && !a.flags.quiet {
		err = v.rows(a, cmd.OutOrStdout(), items)
	} else {
		err = a.showList(cmd.OutOrStdout(), items, v.noun.cols)
	}
	if err != nil {
		return err
	}
	if more && !a.flags.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "there are more than %d; ask for all with --limit 0\n", limit)
	}
	return nil
}

// answer shows what came back, or says that it is done.
func (a *app) answer(cmd *cobra.Command, v verb, op operation, subject string, raw json.RawMessage) error {
	var err error
	empty := len(strings.TrimSpace(string(raw))) == 0
	switch {
	case empty:
	case v.show != nil && a.flags.output == outputTable && !a.flags.quiet:
		err = v.show(a, cmd.OutOrStdout(), raw)
	case v.done != "" && a.flags.output == outputTable && !a.flags.quiet && op.method != http.MethodPost:
	default:
		err = a.showOne(cmd.OutOrStdout(), raw)
	}
	if err != nil || a.flags.quiet {
		return err
	}
	if v.done != "" {
		text := v.done
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, subject)
		}
		fmt.Fprintln(cmd.ErrOrStderr(), text)
	}
	if v.more != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), v.more)
	}
	return nil
}
