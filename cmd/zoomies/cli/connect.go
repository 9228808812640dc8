package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/zoomies-fleet/zoomies/client"
)

// localName is the context of this machine's own controller. It needs no entry.
const localName = "local"

// chosen is where a command goes and with what.
type chosen struct {
	name    string // of the context; empty when a flag or variable names the server
	options client.Options
}

// choose finds the controller: what a flag says, then what the environment says, then the current context, then this machine's own.
func (a *app) choose() (chosen, error) {
	f, err := loadContexts()
	if err != nil {
		return chosen{}, err
	}
	var out chosen
	name := a.flags.context
	server := a.flags.server
	if server != "" && name != "" {
		return out, usagef("give --server or --context, not both")
	}
	if server == "" && name == "" {
		server, name = os.Getenv(VariableServer), os.Getenv(VariableContext)
	}
	if server == "" && name == "" {
		name = f.Current
	}
	switch {
	case server != "":
		out.options = client.Options{Server: server}
	case name == "" || name == localName && f.find(localName) == nil:
		socket, err := a.localSocket()
		if err != nil {
			return out, err
		}
		out = chosen{localName, client.Options{Socket: socket}}
	default:
		c := f.find(name)
		if c == nil {
			return out, notFoundError{"there is no context " + name + didYouMean(name, append(f.names(), localName)) + "; see zoomies context list"}
		}
		out = chosen{name, client.Options{Server: c.Server, Socket: c.Socket, CAFile: c.CAFile, PinSHA256: c.Pin}}
	}
	if a.flags.caFile != "" || a.flags.pin != "" {
		out.options.CAFile, out.options.PinSHA256 = a.flags.caFile, a.flags.pin
	}
	out.options.UserAgent = "zoomies/" + a.options.Version
	out.options.Token, err = a.token(f.find(out.name))
	return out, err
}

// localSocket is this machine's controller, which must be there.
func (a *app) localSocket() (string, error) {
	socket := ""
	if a.options.LocalSocket != nil {
		socket = a.options.LocalSocket()
	}
	if _, err := os.Stat(socket); socket == "" || err != nil {
		if errors.Is(err, os.ErrPermission) {
			return "", fmt.Errorf("cannot reach this machine's controller: %s is its owner's alone; run as that user, or sign in: zoomies login --server https://…", socket)
		}
		return "", &client.UnavailableError{Base: "this machine", Err: errors.New("no controller runs here, and no other is chosen; " +
			"give --server and a token, or sign in: zoomies login --server https://…")}
	}
	return socket, nil
}

// token is the API token: what a flag names, then the environment's, then the context's. Over the local socket none is needed.
func (a *app) token(c *storedContext) (string, error) {
	file := a.flags.tokenFile
	if file == "" {
		if t := os.Getenv(VariableToken); t != "" {
			return strings.TrimSpace(t), nil
		}
		if c == nil || c.TokenFile == "" {
			return "", nil
		}
		file = c.TokenFile
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the API token: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

func (a *app) client() (*client.Client, error) {
	c, err := a.choose()
	if err != nil {
		return nil, err
	}
	made, err := client.New(c.options)
	if err != nil {
		return nil, UsageError{err}
	}
	return made, nil
}
