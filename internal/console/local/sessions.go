// Package local serves the console on a loopback address, for one user of this machine. The proxy sends the requests of
// the page to the API with the credentials of a kubeconfig. Other users of the machine can connect to the address, and
// other pages in the browser can send requests to it. Therefore the page exchanges a one-time code for a session token, and
// sends the token in a header of each request. Both exist only in memory.
package local

import (
	"crypto/rand"
	"crypto/subtle"
	"sync"
	"time"
)

const (
	// codeLifetime is the time in which a one-time code can be exchanged.
	codeLifetime = 2 * time.Minute
	// maxSessions is the maximum number of sessions. A new session replaces the oldest one.
	maxSessions = 32
)

// sessions contains the valid code and the valid session tokens. It is safe for concurrent use.
type sessions struct {
	now func() time.Time
	mu  struct {
		sync.Mutex
		code    string // "" if there is none
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

// exchange returns a session token for the valid code. Each call makes the current code invalid, even if it
// passes a wrong code, so that a program cannot guess twice.
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

// valid reports whether a session has the token.
func (s *sessions) valid(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := 0
	for _, known := range s.mu.tokens {
		found |= subtle.ConstantTimeCompare([]byte(token), []byte(known))
	}
	return found == 1
}
