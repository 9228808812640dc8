package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

func contextCommand(a *app) *cobra.Command {
	c := group("context", "Choose between controllers", a.contextList(), a.contextUse(), a.contextAdd(), a.contextRemove())
	c.PersistentFlags().StringVarP(&a.flags.output, "output", "o", "table", "how answers are shown: table, json or yaml")
	c.PersistentFlags().BoolVarP(&a.flags.quiet, "quiet", "q", false, "print names and nothing else")
	complete(c, "output", "table", "json", "yaml")
	return c
}

func (a *app) contextList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the contexts", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			f, err := loadContexts()
			if err != nil {
				return err
			}
			type row struct {
				storedContext

				ID      string `json:"id"`
				Current bool   `json:"current"`
			}
			items := []json.RawMessage{}
			for _, c := range f.Contexts {
				raw, err := json.Marshal(row{c, c.Name, c.Name == f.Current})
				if err != nil {
					return err
				}
				items = append(items, raw)
			}
			return a.showList(cmd.OutOrStdout(), items, []column{{"NAME", "name"}, {"CURRENT", "current"}, {"SERVER", "server"}, {"SOCKET", "socket"}})
		},
	}
}

func (a *app) contextUse() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one", Args: usage(cobra.ExactArgs(1)), ValidArgsFunction: a.completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := loadContexts()
			if err != nil {
				return err
			}
			name := args[0]
			if name == localName && f.find(localName) == nil {
				name = "" // this machine's own needs no entry
			} else if f.find(name) == nil {
				return notFoundError{"there is no context " + name + didYouMean(name, append(f.names(), localName)) + "; see zoomies context list"}
			}
			f.Current = name
			if err := f.save(); err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "commands now go to", args[0])
			return nil
		},
	}
}

func (a *app) contextAdd() *cobra.Command {
	var c storedContext
	var use bool
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Add a controller, or change how it is reached", Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Name = args[0]
			if err := checkContextName(c.Name); err != nil {
				return err
			}
			for _, p := range []*string{&c.TokenFile, &c.CAFile, &c.Socket} {
				if *p == "" {
					continue
				}
				abs, err := filepath.Abs(*p) // commands run anywhere
				if err != nil {
					return err
				}
				*p = abs
			}
			if _, err := client.New(client.Options{Server: c.Server, Socket: c.Socket, CAFile: c.CAFile, PinSHA256: c.Pin}); err != nil {
				return UsageError{err}
			}
			f, err := loadContexts()
			if err != nil {
				return err
			}
			f.put(c)
			if use || f.Current == "" && len(f.Contexts) == 1 {
				f.Current = c.Name
			}
			return f.save()
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&c.Server, "server", "", "address of the controller, https://host[:port]")
	fl.StringVar(&c.Socket, "socket", "", "instead: path of a controller's local socket")
	fl.StringVar(&c.TokenFile, "token-file", "", "file with the API token")
	fl.StringVar(&c.CAFile, "ca-file", "", "PEM file of the authority that the controller's certificate must come from")
	fl.StringVar(&c.Pin, "pin", "", "instead: SHA-256 of that authority's public key")
	fl.BoolVar(&use, "use", false, "make it the current context")
	return cmd
}

func (a *app) contextRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Forget a controller, and the token that login stored for it", Args: usage(cobra.ExactArgs(1)), ValidArgsFunction: a.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := loadContexts()
			if err != nil {
				return err
			}
			c := f.find(args[0])
			if c == nil {
				return notFoundError{"there is no context " + args[0] + didYouMean(args[0], f.names()) + "; see zoomies context list"}
			}
			own, err := tokenFileOf(c.Name)
			if err != nil {
				return err
			}
			if c.TokenFile == own {
				if err := os.Remove(own); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("cannot remove the stored token: %w", err)
				}
			}
			f.Contexts = slices.DeleteFunc(f.Contexts, func(c storedContext) bool { return c.Name == args[0] })
			if f.Current == args[0] {
				f.Current = ""
			}
			return f.save()
		},
	}
}

func (a *app) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.contextNames(), cobra.ShellCompDirectiveNoFileComp
}

// tokenFileOf is where login keeps the token of a context.
func tokenFileOf(name string) (string, error) {
	path, err := configFile()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), "tokens", name), nil
}
