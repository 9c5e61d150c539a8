package external

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// checkHeader returns an error if other verifiers could not verify a token with this header.
func (k *Keys) checkHeader(ctx context.Context, encoded string) error {
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return fmt.Errorf("while unwrapping header: %w", err)
	}
	var header struct {
		Algorithm jose.SignatureAlgorithm `json:"alg"`
		KeyID     string                  `json:"kid"`
		Type      string                  `json:"typ"`
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&header); err != nil {
		return fmt.Errorf("while parsing header JSON: %w", err)
	}
	algorithms := []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}
	switch {
	case header.Type != "JWT":
		return errors.New("bad type")
	case header.KeyID == "":
		return errors.New("key id missing")
	case len(header.KeyID) > maxKeyID:
		return errors.New("key id longer than 1 kb")
	case !slices.Contains(algorithms, header.Algorithm):
		return fmt.Errorf("bad signing algorithm %q", header.Algorithm)
	}
	keys := k.keySetFor(ctx, header.KeyID)
	if keys.has(header.KeyID) && !slices.ContainsFunc(keys.published, func(key jose.JSONWebKey) bool { return key.KeyID == header.KeyID }) {
		return fmt.Errorf("key used for signing JWT (kid: %s) is excluded from OIDC discovery docs", header.KeyID)
	}
	return nil
}
