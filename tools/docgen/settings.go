package main

import (
	"fmt"
	"strings"

	"github.com/zoomies-fleet/zoomies/controller/config"
)

const settingsIntro = `# Settings

A setting's value comes from the last of these that gives one:

1. its default;
2. the settings file: the one that ` + "`--config`" + ` names, else ` + "`" + config.DefaultFile + "`" + ` where it exists;
3. the fleet's database;
4. a variable of the environment, ` + "`" + config.EnvPrefix + "`" + ` and the key in capitals with ` + "`_`" + ` for each dot.

In the file keys nest or are dotted:

` + "```yaml" + `
listen: 127.0.0.1:8080
github:
  poll_interval: 2m
agent.backends: [podman]
` + "```" + `

A key that does not exist, or a value that does not parse, stops the start with the file and
line, the variable or the database key to mend. Durations carry their unit: ` + "`90s`, `5m`, `1h30m`" + `.
A changed setting counts from the next start of the controller. A setting marked *early* is
needed before the database opens and cannot be given there.

The defaults are the safe choice. Each deviation from them is named when the controller starts,
with why it matters and how to undo it; errors stop the start.
`

func settingsPage() string {
	var b strings.Builder
	b.WriteString(notice)
	b.WriteString(settingsIntro)
	group := ""
	for _, s := range config.Registry() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n## %s\n\n| key | kind | default | bounds | what it does |\n| --- | --- | --- | --- | --- |\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Key, s.Kind, code(s.Default), bounds(s), cell(s.Summary)+marks(s))
	}
	return b.String()
}

// marks says what is not usual of a setting.
func marks(s config.Setting) string {
	text := ""
	if s.Early {
		text += " *Early.*"
	}
	if s.Effect == config.Live {
		text += " *Counts at once.*"
	}
	return text
}

func bounds(s config.Setting) string {
	switch {
	case s.Values != nil:
		return code(strings.Join(s.Values, ", "))
	case s.Floor != "" && s.Ceiling != "":
		return code(s.Floor) + " to " + code(s.Ceiling)
	case s.Floor != "":
		return "from " + code(s.Floor)
	case s.Ceiling != "":
		return "to " + code(s.Ceiling)
	}
	return ""
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// cell makes text fit one cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
