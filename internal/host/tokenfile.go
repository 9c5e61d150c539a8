package host

import (
	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/filters/authn"
)

// TokenFileConfig configures bearer tokens in a file.
type TokenFileConfig struct {
	// File is read at startup, as in kube-apiserver; "" if there is none.
	File string
}

func (c *TokenFileConfig) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.File, "token-auth-file", "", "file of bearer tokens, read at startup: lines of TOKEN,USER,UID or TOKEN,USER,UID,\"GROUP,...\"")
}

func (c *TokenFileConfig) setDefaults() {}

func (c *TokenFileConfig) check() error { return nil }

func (c *TokenFileConfig) open(*tokenEnv) (authn.TokenSource, error) {
	if c.File == "" {
		return nil, nil
	}
	tokens, err := readFlagFile("--token-auth-file", c.File, authn.ParseStaticTokens)
	if err != nil {
		return nil, err
	}
	return authn.UserTokens(tokens.User), nil
}
