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

// StaticTokens maps the SHA-256 of each token in a token file to its user. Hashing makes the lookup
// time independent of the token. It must not be modified after its first use. It is safe for
// concurrent use.
type StaticTokens map[[sha256.Size]byte]*request.User

// ParseStaticTokens parses a CSV file with the columns token, user name, UID and, optionally,
// groups. Groups are separated by commas, so a column with several groups must be quoted. If a
// token occurs more than once, its last line applies. Lines without a token are ignored. It returns
// an error for invalid CSV, and for a line with fewer than three columns.
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

// User returns a copy of the user of a token, or nil for an unknown token. The copy shares its
// groups with t. The error is always nil.
func (t StaticTokens) User(_ context.Context, token string) (*request.User, error) {
	user := t[sha256.Sum256([]byte(token))]
	if user == nil {
		return nil, nil
	}
	return new(*user), nil
}
