// Package marks writes a provider.Mark into the text that a resource carries, such as the
// description of a VM, and reads it back. It must never guess: a text whose record was changed,
// or that has two, has no mark.
package marks

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/zoomies-fleet/zoomies/provider"
)

// MaxText is the most bytes that Format makes: what fits into the description of a VM on Proxmox.
const MaxText = 8192

// ErrNone says that a text has no record at all.
var ErrNone = errors.New("there is no ownership record")

const (
	opening = "[zoomies-mark"
	version = "v1"
	told    = "Zoomies made this for its fleet %s and deletes it by itself. The next line is how it knows its own: leave it as it is, and take it out of a copy.\n"
)

// names of the fields of version 1, in their order.
var names = []string{"fleet", "machine", "resource", "nonce"}

// Format returns a sentence for people and a line that Parse reads, in printable ASCII and without a newline at the end. Every field of m
// has to be set; ErrInvalid else, or when the text would be longer than MaxText.
func Format(m provider.Mark) (string, error) {
	for i, v := range values(m) {
		if v == "" {
			return "", fmt.Errorf("cannot write an ownership record without a %s: %w", names[i], provider.ErrInvalid)
		}
	}
	text := fmt.Sprintf(told, url.QueryEscape(m.Fleet)) + record(m)
	if len(text) > MaxText {
		return "", fmt.Errorf("cannot write an ownership record of %d bytes: no more than %d fit: %w", len(text), MaxText, provider.ErrInvalid)
	}
	return text, nil
}

func values(m provider.Mark) []string { return []string{m.Fleet, m.Machine, m.Resource, m.Nonce} }

// record is m in brackets, with a sum against slips of the hand. It is no signature: whoever may write the description may write any record.
func record(m provider.Mark) string {
	var b strings.Builder
	b.WriteString(version)
	for i, v := range values(m) {
		b.WriteString(" " + names[i] + "=" + url.QueryEscape(v))
	}
	sum := sha256.Sum256([]byte(b.String()))
	return opening + " " + b.String() + " sum=" + hex.EncodeToString(sum[:4]) + "]"
}

// Parse returns the mark that a text carries, whatever people wrote around its record and wherever they wrapped it. ErrNone when it has
// none; another error when it has two, or one that was changed or that this version does not know.
func Parse(text string) (provider.Mark, error) {
	switch strings.Count(text, opening) {
	case 0:
		return provider.Mark{}, ErrNone
	case 1:
	default:
		return provider.Mark{}, errors.New("cannot say which ownership record counts: there are two or more")
	}
	_, rest, _ := strings.Cut(text, opening)
	body, _, closed := strings.Cut(rest, "]")
	if !closed {
		return provider.Mark{}, errors.New("cannot read the ownership record: it does not end")
	}
	fields := strings.Fields(body)
	if len(fields) == 0 || fields[0] != version || strings.HasPrefix(body, version) {
		return provider.Mark{}, errors.New("cannot read the ownership record: it is of a version that is not known here")
	}
	if len(fields) != len(names)+2 {
		return provider.Mark{}, fmt.Errorf("cannot read the ownership record: it has %d words", len(fields))
	}
	var m provider.Mark
	for i, to := range []*string{&m.Fleet, &m.Machine, &m.Resource, &m.Nonce} {
		value, ok := strings.CutPrefix(fields[i+1], names[i]+"=")
		if !ok || value == "" {
			return provider.Mark{}, fmt.Errorf("cannot read the ownership record: its %s is missing", names[i])
		}
		var err error
		if *to, err = url.QueryUnescape(value); err != nil {
			return provider.Mark{}, fmt.Errorf("cannot read the %s of the ownership record: %w", names[i], err)
		}
	}
	if opening+" "+strings.Join(fields, " ")+"]" != record(m) {
		return provider.Mark{}, errors.New("cannot trust the ownership record: it was changed")
	}
	return m, nil
}
