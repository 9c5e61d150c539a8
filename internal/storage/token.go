package storage

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// continueToken is kube-apiserver's continue token. It contains the next key of a paged list and the revision
// of the list. The format is part of the API, because clients can use a token with another server.
type continueToken struct {
	Version  string `json:"v"`
	Revision int64  `json:"rv"`
	// Start is the next key, relative to the prefix of the list.
	Start string `json:"start"`
}

const tokenVersion = "meta.k8s.io/v1"

// newestRevision is the revision in a token for a list that continues at the newest revision.
const newestRevision = -1

var errContinue = errors.New("continue key is not valid")

// encodeContinue returns the token for a list that continues at a key.
func encodeContinue(key, prefix string, revision int64) string {
	b, err := json.Marshal(continueToken{tokenVersion, revision, "/" + strings.TrimPrefix(key, prefix)})
	if err != nil {
		panic(fmt.Sprintf("storage: a continue token cannot be encoded: %v", err))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeContinue returns the next key of a list, including the prefix, and the revision, which is never 0.
// The error wraps errContinue.
func decodeContinue(token, prefix string) (string, int64, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", errContinue, err)
	}
	var c continueToken
	if err := json.Unmarshal(b, &c); err != nil {
		return "", 0, fmt.Errorf("%w: %w", errContinue, err)
	}
	switch {
	case c.Version != tokenVersion:
		return "", 0, fmt.Errorf("%w: server does not recognize this encoded version %s", errContinue, c.Version)
	case c.Revision == 0:
		return "", 0, fmt.Errorf("%w: incorrect encoded start resourceVersion (version meta.k8s.io/v1)", errContinue)
	case c.Start == "":
		return "", 0, fmt.Errorf("%w: encoded start key empty (version meta.k8s.io/v1)", errContinue)
	}
	start := c.Start
	if !strings.HasPrefix(start, "/") {
		start = "/" + start
	}
	// Dot segments in the path could escape the prefix.
	if cleaned := path.Clean(start); cleaned != start {
		return "", 0, fmt.Errorf("%w: %s", errContinue, cleaned)
	}
	return prefix + start[1:], c.Revision, nil
}

// ParseResourceVersion parses the resourceVersion of a request. It returns 0 for "" and "0", and the largest
// possible revision for greater numbers. The error is a *field.Error.
func ParseResourceVersion(rv string) (kv.Revision, error) {
	if rv == "" || rv == "0" {
		return 0, nil
	}
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return 0, field.Invalid(field.NewPath("resourceVersion"), rv, err.Error())
	}
	return kv.Revision(min(n, math.MaxInt64)), nil
}
