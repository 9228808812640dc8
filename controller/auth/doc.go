// Package auth makes and checks credentials: passwords as argon2id, bearer tokens as SHA-256. It
// must never keep, log or return a password or a token it was given to check.
package auth
