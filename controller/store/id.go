package store

import (
	"crypto/rand"
	"encoding/base32"
)

// The prefixes of IDs, which say what an ID is of.
const (
	idInstallation = "ins_"
	idPool         = "pool_"
	idHost         = "hst_"
	idJoinToken    = "tok_"
	idJob          = "job_"
	idRunner       = "run_"
	idTask         = "tsk_"
	idController   = "ctl_"
	idProvider     = "prv_"
	idMachine      = "mac_"
)

// Prefixes of what the API makes: its callers choose the ID before the row, so that the audit row can name it.
const (
	IDUser         = "usr_"
	IDSession      = "ses_"
	IDToken        = "tok_"
	IDApp          = "app_"
	IDSetup        = "set_"
	IDPool         = idPool
	IDInstallation = idInstallation
	IDProvider     = idProvider
)

const idBytes = 10 // 80 bits, 16 characters of base32

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewID returns prefix and 16 random characters of lower-case base32.
func NewID(prefix string) string {
	var raw [idBytes]byte
	// Read never fails: the runtime ends the process rather than return weak randomness.
	_, _ = rand.Read(raw[:])
	return prefix + idEncoding.EncodeToString(raw[:])
}
