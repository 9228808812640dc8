// Package secrets seals what must not be readable in a copy of the database: AES-256-GCM with a
// key file outside it. It must never log or print what it opens.
package secrets

// Keyring holds the keys of a key file: the newest seals, all of them open.
type Keyring struct{}
