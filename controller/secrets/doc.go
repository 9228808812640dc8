// Package secrets seals what must not be readable in a copy of the database: AES-256-GCM with
// keys that live in a file outside it. Every ciphertext is bound to the row and the column it was
// made for. It must never log or print what it opens.
package secrets
