package authn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"mainstay.dev/mainstay/internal/request"
)

// StaticTokens are tokens that are listed in a file, by their SHA-256: how long it takes
// to find one says nothing of it.
type StaticTokens map[[sha256.Size]byte]*request.User

// ParseStaticTokens reads lines of comma-separated values: token, user, UID, and groups,
// which are separated by commas themselves. Of a token that is there twice the last line
// counts; a line without a token is none.
func ParseStaticTokens(data []byte) (StaticTokens, error) {
	tokens := StaticTokens{}
	reader := csv.NewReader(bytes.NewReader(data))
	reader.FieldsPerRecord = -1
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return tokens, nil
		}
		if err != nil {
			return nil, err
		}
		if len(record) < 3 {
			return nil, fmt.Errorf("a token file must have at least 3 columns (token, user name, user uid), found %d", len(record))
		}
		if record[0] == "" {
			continue
		}
		user := &request.User{Name: record[1], UID: record[2]}
		if len(record) > 3 && record[3] != "" {
			user.Groups = strings.Split(record[3], ",")
		}
		tokens[sha256.Sum256([]byte(record[0]))] = user
	}
}

// User returns whose token it is; nil for tokens that are not listed.
func (t StaticTokens) User(_ context.Context, token string) (*request.User, error) {
	user := t[sha256.Sum256([]byte(token))]
	if user == nil {
		return nil, nil
	}
	return new(*user), nil
}
