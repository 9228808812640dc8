package github

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// App is what an operator knows of the GitHub App.
type App struct {
	ID            int64
	PrivateKeyPEM []byte
	WebhookSecret string
}

// appKeys is the App: who it is, and what proves it.
type appKeys struct {
	id       int64
	key      *rsa.PrivateKey
	pem      []byte
	secret   string
	clientID string

	name, slug  string
	owner       *account // nil: of the first installation's account
	permissions map[string]string
	events      []string
	setupURL    string // where a browser goes that has installed it
}

type keyPair struct {
	key *rsa.PrivateKey
	pem []byte
}

// appKey is one key for every server of a process: making one takes a good part of a second.
var appKey = sync.OnceValues(func() (keyPair, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{key, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})}, nil
})

// App is the GitHub App that every installation is of.
func (s *Server) App() App {
	return App{ID: s.app.id, PrivateKeyPEM: slices.Clone(s.app.pem), WebhookSecret: s.app.secret}
}

// maxJWTLife is the longest that GitHub lets an App's own token live.
const maxJWTLife = 10 * time.Minute

// tokenLife is how long an installation token lives.
const tokenLife = time.Hour

// bearer is the token of a request, "" without one.
func bearer(r *http.Request) string {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(kind, "bearer") || strings.EqualFold(kind, "token") {
		return strings.TrimSpace(token)
	}
	return ""
}

// checkAppJWT verifies the App's own token; the error is worded as GitHub's message.
func (s *Server) checkAppJWT(token string, now time.Time) error {
	claims := jwt.MapClaims{}
	p := jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithoutClaimsValidation(), jwt.WithJSONNumber())
	if _, err := p.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return &s.app.key.PublicKey, nil }); err != nil {
		return errors.New("A JSON web token could not be decoded") //nolint:staticcheck // GitHub's wording
	}
	iss := fmt.Sprint(claims["iss"])
	if iss != strconv.FormatInt(s.app.id, 10) && iss != s.app.clientID {
		return errors.New("Integration not found") //nolint:staticcheck // GitHub's wording
	}
	exp, err := claims.GetExpirationTime()
	switch {
	case err != nil || exp == nil:
		return errors.New("Missing 'Expiration time' claim ('exp')") //nolint:staticcheck // GitHub's wording
	case !exp.After(now):
		return errors.New("'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
	case exp.Sub(now) > maxJWTLife:
		return errors.New("'Expiration time' claim ('exp') is too far in the future")
	}
	if iat, err := claims.GetIssuedAt(); err != nil || iat == nil || iat.After(now.Add(time.Minute)) {
		return errors.New("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
	}
	return nil
}

// installationOf is the installation whose unexpired token this is, or nil. Called under mu.
func (s *Server) installationOf(token string) *installation {
	t := s.world.tokens[token]
	if t == nil || !s.now().Before(t.expires) || s.world.installations[t.installation.id] != t.installation {
		return nil
	}
	return t.installation
}

// RevokeTokens makes every installation token so far invalid.
func (s *Server) RevokeTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.world.tokens)
}

// SuspendInstallation suspends an installation, or lifts that: suspended, it gets no tokens.
func (s *Server) SuspendInstallation(id int64, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.world.installations[id]
	if in == nil {
		return
	}
	in.suspended = time.Time{}
	if on {
		in.suspended = s.now()
		for token, t := range s.world.tokens {
			if t.installation == in {
				delete(s.world.tokens, token)
			}
		}
	}
}

// SetInstallationGrants says what an installation's account has granted the App. An account that has not yet accepted what the App
// asks for has granted less; nil is what the App asks for.
func (s *Server) SetInstallationGrants(id int64, permissions map[string]string, events []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.world.installations[id]; in != nil {
		in.permissions, in.events = permissions, events
	}
}

// RemoveInstallation uninstalls the App from an account: its tokens are void and its repositories out of reach.
func (s *Server) RemoveInstallation(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.world.installations[id]
	if in == nil {
		return
	}
	delete(s.world.installations, id)
	for _, r := range in.repos {
		r.installation = nil
	}
}
