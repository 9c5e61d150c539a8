// Package local serves the console on a loopback address, for one user of this machine. The proxy sends the
// requests of the page to the API with the credentials of a kubeconfig. Other users of the machine can connect
// to the address, and other pages in the browser can send requests to it. Therefore, the page exchanges a
// one-time code for a session token and sends the token in a header of each request. Codes and tokens are kept
// only in memory.
package local

import (
	"crypto/rand"
	"crypto/subtle"
	"sync"
	"time"
)

const (
	// codeLifetime is the time for which a one-time code is valid.
	codeLifetime = 2 * time.Minute
	// maxSessions is the maximum number of sessions. A new session replaces the oldest one.
	maxSessions = 32
)

// sessions contains the current one-time code and the valid session tokens. It is safe for concurrent use.
type sessions struct {
	now func() time.Time
	mu  struct {
		sync.Mutex
		code    string // "" if no code is valid
		expires time.Time
		tokens  []string // oldest first
	}
}

// newCode returns a new one-time code. Earlier codes become invalid.
func (s *sessions) newCode() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.code, s.mu.expires = rand.Text(), s.now().Add(codeLifetime)
	return s.mu.code
}

// exchange returns a session token if code is the current one-time code. Each call makes the current code
// invalid, even if code is wrong, so that a program can guess only once.
func (s *sessions) exchange(code string) (token string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	valid := s.mu.code != "" && s.now().Before(s.mu.expires) && subtle.ConstantTimeCompare([]byte(code), []byte(s.mu.code)) == 1
	s.mu.code = ""
	if !valid {
		return "", false
	}
	token = rand.Text()
	s.mu.tokens = append(s.mu.tokens, token)
	if len(s.mu.tokens) > maxSessions {
		s.mu.tokens = s.mu.tokens[1:]
	}
	return token, true
}

// valid reports whether token is the token of a session.
func (s *sessions) valid(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := 0
	for _, known := range s.mu.tokens {
		found |= subtle.ConstantTimeCompare([]byte(token), []byte(known))
	}
	return found == 1
}
