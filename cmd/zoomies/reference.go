package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/cli"
)

// referenceCommand writes the pages about the commands. `make docs` and packages call it.
func referenceCommand() *cobra.Command {
	c := &cobra.Command{Use: "reference", Short: "Write the pages about the commands", Hidden: true, Args: cobra.NoArgs}
	c.AddCommand(
		&cobra.Command{
			Use: "pages FOLDER", Short: "Write the reference pages into a folder", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				for name, text := range referencePages() {
					if err := os.WriteFile(filepath.Join(args[0], name), text, 0o644); err != nil { //nolint:gosec // pages are for everybody to read
						return fmt.Errorf("cannot write the page: %w", err)
					}
				}
				return nil
			},
		},
		&cobra.Command{
			Use: "man FOLDER", Short: "Write the manual pages into a folder", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // pages are for everybody to read
					return fmt.Errorf("cannot make the pages' folder: %w", err)
				}
				return doc.GenManTree(prepared(), &doc.GenManHeader{Title: "ZOOMIES", Section: "1", Source: "Zoomies", Date: new(time.Unix(0, 0))}, args[0])
			},
		},
	)
	return c
}

// prepared is the tree of commands as it is documented: on no machine in particular.
func prepared() *cobra.Command {
	c := root()
	c.DisableAutoGenTag = true
	c.InitDefaultHelpCmd()
	c.InitDefaultCompletionCmd()
	return c
}

const generated = "<!-- Written by `make docs` from the commands themselves. Change them, not this page. -->\n\n"

// referencePages are the pages by their file's name.
func referencePages() map[string][]byte {
	return map[string][]byte{"cli.md": cliPage(), "exit-codes.md": exitPage()}
}

const cliIntro = `# Commands

` + "`zoomies`" + ` is one binary with every role of the fleet and every verb of its client. ` + "`zoomies --help`" + ` and
` + "`zoomies <command> --help`" + ` print the same as this page. What the statuses mean that commands end with says
[another page](exit-codes.md).

The client's verbs go to the controller that a flag names, then to that of the environment, then to the current
context (` + "`zoomies context`" + `), and else to this machine's own over the socket in its data folder, which only the folder's owner
can open. An API token comes from a file or from ` + "`" + cli.VariableToken + "`" + `, never from the command line. Objects are named by their name or their ID.

` + "`zoomies completion`" + ` writes completions for shells, which offer the names of your objects, too. ` + "`zoomies reference man FOLDER`" + ` writes
the manual pages for a package, and ` + "`zoomies reference pages FOLDER`" + ` this page.
`

func cliPage() []byte {
	var b bytes.Buffer
	b.WriteString(generated + cliIntro)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		if c.HasParent() {
			writeCommand(&b, c)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(prepared())
	return b.Bytes()
}

func writeCommand(b *bytes.Buffer, c *cobra.Command) {
	level := "##"
	if c.Parent().HasParent() {
		level = "###"
	}
	fmt.Fprintf(b, "\n%s `%s`\n\n", level, c.CommandPath())
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	if strings.HasPrefix(c.CommandPath(), "zoomies completion") && c.Parent().HasParent() {
		text = c.Short + "." // what cobra says here is long and about shells
	}
	fmt.Fprintf(b, "%s\n", plain(text))
	if c.Runnable() && !c.HasSubCommands() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", dedent(c.Example))
	}
	flags := c.NonInheritedFlags()
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString("\n| flag | what it does |\n| --- | --- |\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name += ", `-" + f.Shorthand + "`"
		}
		fmt.Fprintf(b, "| %s | %s |\n", name, cellText(f))
	})
}

// plain keeps what Markdown would read as something else.
func plain(text string) string { return strings.ReplaceAll(text, "<", "&lt;") }

func dedent(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}

func cellText(f *pflag.Flag) string {
	text := strings.ReplaceAll(plain(f.Usage), "|", `\|`)
	if none := []string{"", "false", "0", "[]", "0s"}; slices.Contains(none, f.DefValue) || strings.Contains(text, "(default") {
		return text
	}
	return text + " (default: " + f.DefValue + ")"
}

const exitIntro = `# Exit codes

The client's verbs of [zoomies](cli.md) end with these. Other commands end with 0 or 1, and with 2 when they are used wrongly;
` + "`zoomies demo`" + ` ends with 2 when a job did not finish or anything was left behind.

| code | meaning |
| --- | --- |
`

func exitPage() []byte {
	var b bytes.Buffer
	b.WriteString(generated + exitIntro)
	for _, e := range cli.Exits {
		fmt.Fprintf(&b, "| %d | %s |\n", e.Code, e.Meaning)
	}
	return b.Bytes()
}
