package oidc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/simulation"
)

// Config configures Authenticators. Configuration and Logger are required.
type Config struct {
	Configuration *Configuration
	// Disallowed contains the issuers of service account tokens, which providers must not use.
	Disallowed []string
	// Networks are the available networks. A provider selects one with egressSelectorType.
	Networks egress.Networks
	Logger   *slog.Logger
	Metrics  *Metrics // may be nil
}

// Authenticators verifies the tokens of all providers of a configuration. It is immutable and safe
// for concurrent use.
type Authenticators struct{ providers []*provider }

// New validates and compiles the configuration. It returns an error that describes all problems. It
// does not contact the providers; their keys are fetched when the first token arrives.
func New(config Config) (*Authenticators, error) {
	errs := validate(config.Configuration, config.Disallowed)
	compiler, err := newCompiler()
	if err != nil {
		return nil, err
	}
	a, unusable := &Authenticators{}, []error(nil)
	for i := range config.Configuration.JWT {
		p, err := newProvider(&config, &config.Configuration.JWT[i], compiler, field.NewPath("jwt").Index(i))
		unusable = append(unusable, err)
		a.providers = append(a.providers, p)
	}
	if errs = append(errs, compiler.errs...); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return a, errors.Join(unusable...)
}

// User returns the user of a token. It returns nil, nil for malformed tokens and tokens of other
// issuers, and an error if the token is invalid or the provider is unreachable. It may block until
// the provider responds.
func (a *Authenticators) User(ctx context.Context, token string) (*request.User, error) {
	if len(a.providers) == 0 {
		return nil, nil
	}
	parsed, issuer, err := parseIssued(token)
	if err != nil {
		return nil, nil
	}
	for _, p := range a.providers {
		if issuer != p.issuer.URL {
			continue
		}
		began := time.Now()
		user, err := p.user(ctx, parsed)
		p.metrics.observe(p.issuer.URL, err, time.Since(began))
		return user, err
	}
	return nil, nil
}

// parseIssued parses a token without verifying it. It returns the token and the issuer that the
// token claims to have.
func parseIssued(text string) (*jose.JSONWebSignature, string, error) {
	token, err := jose.ParseSignedCompact(text, allAlgorithms())
	if err != nil {
		return nil, "", err
	}
	claims, err := readClaims(token.UnsafePayloadWithoutVerification())
	if err != nil {
		return nil, "", err
	}
	issuer, _ := claims["iss"].(string)
	if issuer == "accounts.google.com" {
		issuer = "https://" + issuer // the issuer of some Google tokens has no scheme; kube-apiserver accepts them
	}
	return token, issuer, nil
}

// allAlgorithms returns the supported signature algorithms. All of them are asymmetric, because the keys of a
// provider are public.
func allAlgorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512}
}

// provider verifies the tokens of one provider and maps their claims to users.
type provider struct {
	issuer     Issuer
	algorithms []string
	keys       *keySet
	groups     *distributedClaims
	metrics    *Metrics

	conditions []claimCondition
	mapper     *mapper
	userRules  []userCondition
}

func newProvider(config *Config, a *Authenticator, compiler *compiler, at *field.Path) (*provider, error) {
	p := &provider{
		issuer: a.Issuer, algorithms: a.SigningAlgs, metrics: config.Metrics,
		mapper:     newMapper(a, compiler, at.Child("claimMappings")),
		conditions: newClaimConditions(a.ClaimValidationRules, compiler, at.Child("claimValidationRules")),
		userRules:  newUserConditions(a.UserValidationRules, compiler, at.Child("userValidationRules")),
	}
	p.checkEmail(a, compiler, at.Child("claimMappings", "username", "expression"))
	var err error
	p.keys, err = newProviderKeySet(&a.Issuer, config.Networks, func(err error) {
		config.Metrics.fetched(a.Issuer.URL, err)
		if err != nil {
			config.Logger.Error("failed to fetch the keys of an OpenID Connect provider", "issuer", a.Issuer.URL, "err", err)
		}
	})
	if err == nil {
		p.groups = newDistributed(a, p)
	}
	return p, err
}

// checkEmail reports an error if an expression maps claims.email to the user name and no expression
// checks claims.email_verified.
func (p *provider) checkEmail(a *Authenticator, compiler *compiler, at *field.Path) {
	if name := p.mapper.username.expression; name == nil || !name.uses("email") {
		return
	}
	all := []*expression{p.mapper.username.expression}
	for _, extra := range p.mapper.extra {
		all = append(all, extra.values)
	}
	for _, condition := range p.conditions {
		all = append(all, condition.expression)
	}
	if !slices.ContainsFunc(all, func(e *expression) bool { return e != nil && e.uses("email_verified") }) {
		compiler.errs = append(compiler.errs, field.Invalid(at, a.ClaimMappings.Username.Expression,
			"claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression"))
	}
}

// verify returns the claims of a token. It checks the algorithm, the signature with the given keys,
// the audience and the validity period.
func (p *provider) verify(ctx context.Context, keys *keySet, token *jose.JSONWebSignature) (map[string]any, error) {
	if algorithm := token.Signatures[0].Header.Algorithm; len(p.algorithms) > 0 && !slices.Contains(p.algorithms, algorithm) {
		return nil, fmt.Errorf("oidc: verify token: oidc: malformed jwt: unexpected signature algorithm %q; expected %q", algorithm, p.algorithms)
	}
	payload, err := keys.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	claims, err := readClaims(payload)
	if err != nil {
		return nil, err
	}
	if err := p.checkStandard(claims, simulation.From(ctx).Shifted()); err != nil {
		return nil, fmt.Errorf("oidc: verify token: %w", err)
	}
	return claims, nil
}

// user returns the user of a token with the issuer of this provider.
func (p *provider) user(ctx context.Context, token *jose.JSONWebSignature) (*request.User, error) {
	claims, err := p.verify(ctx, p.keys, token)
	if err != nil {
		return nil, err
	}
	if err := p.groups.expand(ctx, claims); err != nil {
		return nil, fmt.Errorf("oidc: could not expand distributed claims: %w", err)
	}
	for _, condition := range p.conditions {
		if err := condition.check(ctx, claims); err != nil {
			return nil, err
		}
	}
	user, err := p.mapper.user(ctx, claims)
	if err != nil {
		return nil, err
	}
	if len(p.userRules) > 0 {
		value := userValue(user)
		for _, rule := range p.userRules {
			if err := rule.check(ctx, value); err != nil {
				return nil, err
			}
		}
	}
	return user, nil
}

// notBeforeLeeway is the tolerance for clock differences in checks of the claim nbf.
const notBeforeLeeway = 5 * time.Minute

// checkStandard checks the claims aud, exp and nbf. A token without exp is treated as expired.
func (p *provider) checkStandard(claims map[string]any, now time.Time) error {
	has, err := claimStrings(claims, "aud")
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(has, func(a string) bool { return slices.Contains(p.issuer.Audiences, a) }) {
		return fmt.Errorf("oidc: expected audience in %q got %q", p.issuer.Audiences, has)
	}
	ends, ok := claimTime(claims, "exp")
	if !ok || !now.Before(ends) {
		return fmt.Errorf("oidc: token is expired (Token Expiry: %v)", ends)
	}
	begins, ok := claimTime(claims, "nbf")
	switch {
	case !ok && claims["nbf"] != nil:
		return errors.New("oidc: parse claim nbf: it is not a time in seconds")
	case ok && now.Add(notBeforeLeeway).Before(begins):
		return fmt.Errorf("oidc: current time %v before the nbf (not before) time: %v", now, begins)
	}
	return nil
}

// claimCondition is a compiled ClaimRule. It either requires a value of a claim or has an
// expression that must be true.
type claimCondition struct {
	claim, value string
	expression   *expression
	message      string
}

func newClaimConditions(rules []ClaimRule, compiler *compiler, at *field.Path) []claimCondition {
	var conditions []claimCondition
	for i, rule := range rules {
		c := claimCondition{claim: rule.Claim, value: rule.RequiredValue, message: rule.Message}
		if rule.Expression != "" {
			c.expression = compiler.condition(rule.Expression, claimsVariable, at.Index(i).Child("expression"))
		}
		conditions = append(conditions, c)
	}
	return conditions
}

func (c *claimCondition) check(ctx context.Context, claims map[string]any) error {
	if c.expression != nil {
		return requireTrue(ctx, c.expression, claims, c.message)
	}
	value, ok := claims[c.claim]
	if !ok {
		return fmt.Errorf("oidc: required claim %s not present in ID token", c.claim)
	}
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("oidc: parse claim %s: it is not a string", c.claim)
	}
	if text != c.value {
		return fmt.Errorf("oidc: required claim %s value does not match. Got = %s, want = %s", c.claim, text, c.value)
	}
	return nil
}

// userCondition is a compiled UserValidationRule.
type userCondition struct {
	expression *expression
	message    string
}

func newUserConditions(rules []UserValidationRule, compiler *compiler, at *field.Path) []userCondition {
	var conditions []userCondition
	for i, rule := range rules {
		conditions = append(conditions, userCondition{compiler.condition(rule.Expression, userVariable, at.Index(i).Child("expression")), rule.Message})
	}
	return conditions
}

func (c *userCondition) check(ctx context.Context, user map[string]any) error {
	return requireTrue(ctx, c.expression, user, c.message)
}

func requireTrue(ctx context.Context, condition *expression, value map[string]any, message string) error {
	holds, err := condition.evaluateBool(ctx, value)
	switch {
	case err != nil:
		return fmt.Errorf("oidc: error evaluating validation expression: %w", err)
	case holds:
		return nil
	case message != "":
		return errors.New("oidc: " + strings.TrimSpace("validation expression '"+condition.text+"' failed: "+message))
	}
	return fmt.Errorf("oidc: validation expression '%s' failed", condition.text)
}
