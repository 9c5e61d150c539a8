package oidc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"

	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/request"
)

// readClaims decodes the payload of a token. Claim names are case-sensitive.
func readClaims(payload []byte) (map[string]any, error) {
	claims := map[string]any{}
	if err := json.UnmarshalCaseSensitivePreserveInts(payload, &claims); err != nil {
		return nil, fmt.Errorf("oidc: parse claims: %w", err)
	}
	return claims, nil
}

// claimStrings returns the values of a claim that is a string or a list of strings. It returns nil
// if the claim is absent.
func claimStrings(claims map[string]any, name string) ([]string, error) {
	switch value := claims[name].(type) {
	case nil:
		return nil, nil
	case string:
		return []string{value}, nil
	case []any:
		texts := make([]string, 0, len(value))
		for _, v := range value {
			text, ok := v.(string)
			if !ok {
				return nil, fmt.Errorf("oidc: parse claim %q: its type is %T", name, v)
			}
			texts = append(texts, text)
		}
		return texts, nil
	default:
		return nil, fmt.Errorf("oidc: parse claim %q: it is a %T", name, value)
	}
}

// claimTime returns the time in a claim whose value is the number of seconds since 1970. It returns
// false if the claim is absent, not a number, or out of range.
func claimTime(claims map[string]any, name string) (time.Time, bool) {
	switch value := claims[name].(type) {
	case int64:
		return time.Unix(value, 0), value < math.MaxInt64>>1 // larger values overflow time.Time
	case float64:
		return time.Unix(int64(value), 0), math.Abs(value) < 1<<60
	}
	return time.Time{}, false
}

// mapper maps claims to a user.
type mapper struct {
	username, groups, uid compiledMapping
	extra                 []compiledExtra
}

// compiledMapping is a compiled Mapping. expression is nil if the mapping is a claim or empty.
type compiledMapping struct {
	claim, prefix string
	expression    *expression
}

type compiledExtra struct {
	key    string
	values *expression
}

func newMapper(a *Authenticator, compiler *compiler, at *field.Path) *mapper {
	of := func(name string, m *Mapping, allowed ...*cel.Type) compiledMapping {
		c := compiledMapping{claim: m.Claim}
		if m.Prefix != nil {
			c.prefix = *m.Prefix
		}
		if m.Expression != "" {
			c.expression = compiler.compile(m.Expression, claimsVariable, at.Child(name, "expression"), allowed...)
		}
		return c
	}
	texts := []*cel.Type{cel.StringType, cel.ListType(cel.StringType), cel.ListType(cel.DynType), cel.NullType}
	from := &a.ClaimMappings
	m := &mapper{
		username: of("username", &from.Username, cel.StringType), groups: of("groups", &from.Groups, texts...), uid: of("uid", &from.UID, cel.StringType),
	}
	for i, extra := range from.Extra {
		m.extra = append(m.extra, compiledExtra{extra.Key,
			compiler.compile(extra.ValueExpression, claimsVariable, at.Child("extra").Index(i).Child("valueExpression"), texts...)})
	}
	return m
}

func (c *compiler) condition(text, variable string, at *field.Path) *expression {
	return c.compile(text, variable, at, cel.BoolType)
}

// user returns a new user. An empty user name is an error.
func (m *mapper) user(ctx context.Context, claims map[string]any) (*request.User, error) {
	user := &request.User{}
	var err error
	if user.Name, err = m.usernameOf(ctx, claims); err != nil {
		return nil, err
	}
	if user.Groups, err = m.groupNames(ctx, claims); err != nil {
		return nil, err
	}
	if user.UID, err = m.uid.value(ctx, claims, "uid"); err != nil {
		return nil, err
	}
	if user.Extra, err = m.extraOf(ctx, claims); err != nil {
		return nil, err
	}
	return user, nil
}

// extraOf returns the extra attributes of a user, which are the mapped values and the ID of the token, if it
// has an ID. It returns nil if there are no extra attributes.
func (m *mapper) extraOf(ctx context.Context, claims map[string]any) (map[string][]string, error) {
	all := map[string][]string{}
	if id, _ := claims["jti"].(string); id != "" {
		all[request.ExtraCredentialID] = []string{serviceaccount.CredentialID(id)}
	}
	for _, extra := range m.extra {
		values, err := extra.values.evaluateStrings(ctx, claims)
		if err != nil {
			return nil, fmt.Errorf("oidc: error evaluating claim mapping expression: %w", err)
		}
		if len(values) > 0 {
			all[extra.key] = values
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

func (m *mapper) usernameOf(ctx context.Context, claims map[string]any) (string, error) {
	if m.username.claim == "email" {
		if verified, there := claims["email_verified"]; there && verified != true {
			return "", errors.New("oidc: email not verified")
		}
	}
	name, err := m.username.value(ctx, claims, "username")
	if err == nil && name == "" {
		err = errors.New("oidc: the username of a token is empty")
	}
	return m.username.prefix + name, err
}

func (m *mapper) groupNames(ctx context.Context, claims map[string]any) ([]string, error) {
	if m.groups.expression != nil {
		groups, err := m.groups.expression.evaluateStrings(ctx, claims)
		if err != nil {
			return nil, fmt.Errorf("oidc: error evaluating group claim expression: %w", err)
		}
		return groups, nil
	}
	if m.groups.claim == "" {
		return nil, nil
	}
	groups, err := claimStrings(claims, m.groups.claim)
	if err != nil {
		return nil, fmt.Errorf("oidc: parse groups claim %q: %w", m.groups.claim, err)
	}
	for i := range groups {
		groups[i] = m.groups.prefix + groups[i]
	}
	return groups, nil
}

// value returns the mapped value without the prefix, or "" if the mapping is empty. what names the attribute
// in error messages.
func (c *compiledMapping) value(ctx context.Context, claims map[string]any, what string) (string, error) {
	switch {
	case c.expression != nil:
		value, err := c.expression.evaluateString(ctx, claims)
		if err != nil {
			return "", fmt.Errorf("oidc: error evaluating %s claim expression: %w", what, err)
		}
		return value, nil
	case c.claim == "":
		return "", nil
	}
	value, ok := claims[c.claim].(string)
	if !ok {
		return "", fmt.Errorf("oidc: parse %s claims %q: claim not present, or not a string", what, c.claim)
	}
	return value, nil
}

// userValue returns the value of the variable user in expressions.
func userValue(user *request.User) map[string]any {
	extra := make(map[string]any, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = values
	}
	return map[string]any{"username": user.Name, "uid": user.UID, "groups": append([]string{}, user.Groups...), "extra": extra}
}
