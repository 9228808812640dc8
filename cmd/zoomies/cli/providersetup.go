package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

var providerSetup = &noun{"provider setup", "set_", "list-provider-setups", "name", []column{
	{"NAME", "name"}, {"STATE", "state"}, {"ENDPOINT", "endpoint"}, {"EXPIRES", "expires_at"}, {"ID", "id"},
}}

func providersCommand(a *app) *cobra.Command {
	return a.noun(group("providers", "What machines are rented from", providerSetupCommand(a)))
}

// providerSetupCommand are the verbs for connections that are set up from the provider's side.
func providerSetupCommand(a *app) *cobra.Command {
	c := group("setup", "Connect a provider that the controller cannot reach",
		a.command(verb{
			op: "create-provider-setup", use: "create", noun: providerSetup, takes: []string{"name"}, show: showCommand,
			long: "Prints the one command that connects a Proxmox VE through a gateway: run it as root on one of its nodes. It works once, within an hour,\n" +
				"and holds a secret in its environment. Needs the role admin over the fleet.",
			example: "  zoomies providers setup create home\n  zoomies providers setup create home --storages local,fast --bridge vmbr1",
		}),
		a.command(verb{op: "list-provider-setups", use: "list", noun: providerSetup}),
		a.command(verb{op: "get-provider-setup", use: "get", noun: providerSetup}),
		a.command(verb{
			op: "delete-provider-setup", use: "delete", noun: providerSetup, confirm: "Forget the setup of %s, with what was posted of it?", done: "the setup of %s is forgotten",
		}),
	)
	if !c.HasSubCommands() {
		return nil
	}
	return c
}

// showCommand prints the command alone, so that it can be piped to where it is to be run.
func showCommand(_ *app, w io.Writer, raw json.RawMessage) error {
	var made struct {
		Command string `json:"command"`
	}
	if err := json.Unmarshal(raw, &made); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, made.Command)
	return err
}
