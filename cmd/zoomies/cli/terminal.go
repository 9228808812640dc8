package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// terminal returns the terminal that a stream is, if it is one.
func terminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// colours says whether a stream is for eyes that want colours.
func colours(w io.Writer) bool {
	_, ok := terminal(w)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" //nolint:misspell // the name that other programs take, too
}

// confirm asks before something is deleted. Without a terminal nobody can be asked, and the command itself is the answer.
func (a *app) confirm(cmd *cobra.Command, question string) error {
	if _, ok := terminal(cmd.InOrStdin()); a.flags.yes || !ok {
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(line)); a != "y" && a != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

// promptSecret asks for a secret, without showing it.
func promptSecret(cmd *cobra.Command, name string) (string, error) {
	label := strings.ReplaceAll(name, "_", " ")
	f, ok := terminal(cmd.InOrStdin())
	if !ok {
		return "", usagef("there is no terminal to ask for the %s: give it with --%s-file (- is the standard input)", label, strings.ReplaceAll(name, "_", "-"))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s%s: ", strings.ToUpper(label[:1]), label[1:])
	raw, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(cmd.ErrOrStderr())
	if err != nil {
		return "", fmt.Errorf("cannot read the %s: %w", label, err)
	}
	return string(raw), nil
}

// prompt asks for a line.
func prompt(cmd *cobra.Command, label string) (string, error) {
	if _, ok := terminal(cmd.InOrStdin()); !ok {
		return "", usagef("there is no terminal to ask for the %s: give it with a flag", strings.ToLower(label))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: ", label)
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	return strings.TrimSpace(line), err
}
