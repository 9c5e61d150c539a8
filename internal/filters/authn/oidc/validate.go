package oidc

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxAuthenticators is the maximum number of providers in a configuration.
const maxAuthenticators = 64

// validate returns the errors of a configuration, except errors of expressions. disallowed contains
// the issuers of service account tokens, which providers must not use.
func validate(c *Configuration, disallowed []string) field.ErrorList {
	var errs field.ErrorList
	root := field.NewPath("jwt")
	if len(c.JWT) > maxAuthenticators {
		errs = append(errs, field.TooMany(root, len(c.JWT), maxAuthenticators))
	}
	issuers, discovery := sets.New[string](), sets.New[string]()
	for i := range c.JWT {
		a, at := &c.JWT[i], root.Index(i)
		errs = append(errs, validateIssuer(&a.Issuer, at.Child("issuer"), disallowed)...)
		if issuers.Has(a.Issuer.URL) {
			errs = append(errs, field.Duplicate(at.Child("issuer", "url"), a.Issuer.URL))
		}
		issuers.Insert(a.Issuer.URL)
		if from := a.Issuer.DiscoveryURL; from != "" {
			if discovery.Has(from) {
				errs = append(errs, field.Duplicate(at.Child("issuer", "discoveryURL"), from))
			}
			discovery.Insert(from)
		}
		errs = append(errs, validateClaimRules(a.ClaimValidationRules, at.Child("claimValidationRules"))...)
		errs = append(errs, validateMappings(&a.ClaimMappings, at.Child("claimMappings"))...)
		errs = append(errs, validateUserRules(a.UserValidationRules, at.Child("userValidationRules"))...)
	}
	if a := c.Anonymous; a != nil && !a.Enabled && len(a.Conditions) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("anonymous", "conditions"), a.Conditions, "enabled should be set to true when conditions are defined"))
	}
	return errs
}

func validateIssuer(issuer *Issuer, at *field.Path, disallowed []string) field.ErrorList {
	errs := validateURL(issuer.URL, at.Child("url"), disallowed)
	if from := issuer.DiscoveryURL; from != "" {
		if strings.TrimRight(from, "/") == strings.TrimRight(issuer.URL, "/") {
			errs = append(errs, field.Invalid(at.Child("discoveryURL"), from, "discoveryURL must be different from URL"))
		}
		errs = append(errs, validateURL(from, at.Child("discoveryURL"), disallowed)...)
	}
	audiences := at.Child("audiences")
	if len(issuer.Audiences) == 0 {
		errs = append(errs, field.Required(audiences, fmt.Sprintf("at least one %s is required", audiences)))
	}
	for i, audience := range issuer.Audiences {
		if audience == "" {
			errs = append(errs, field.Required(audiences.Index(i), ""))
		}
		if slices.Contains(issuer.Audiences[:i], audience) {
			errs = append(errs, field.Duplicate(audiences.Index(i), audience))
		}
	}
	switch policy := issuer.AudienceMatchPolicy; {
	case len(issuer.Audiences) > 1 && policy != matchAny:
		errs = append(errs, field.Invalid(at.Child("audienceMatchPolicy"), policy, "audienceMatchPolicy must be MatchAny for multiple audiences"))
	case policy != "" && policy != matchAny:
		errs = append(errs, field.Invalid(at.Child("audienceMatchPolicy"), policy, "audienceMatchPolicy must be empty or MatchAny for single audience"))
	}
	if ca := issuer.CertificateAuthority; ca != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(ca)) {
		errs = append(errs, field.Invalid(at.Child("certificateAuthority"), "<omitted>", "data does not contain any valid RSA or ECDSA certificates"))
	}
	switch selector := issuer.EgressSelectorType; selector {
	case "", egressControlPlane, egressCluster:
	default:
		errs = append(errs, field.Invalid(at.Child("egressSelectorType"), selector, "egress selector must be either controlplane or cluster"))
	}
	return errs
}

func validateURL(text string, at *field.Path, disallowed []string) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Invalid(at, text, err.Error())}
	}
	var errs field.ErrorList
	for _, rule := range []struct {
		broken bool
		why    string
	}{
		{slices.Contains(disallowed, text), fmt.Sprintf("URL must not overlap with disallowed issuers: %s", disallowed)},
		{u.Scheme != "https", "URL scheme must be https"},
		{u.User != nil, "URL must not contain a username or password"},
		{u.RawQuery != "", "URL must not contain a query"},
		{u.Fragment != "", "URL must not contain a fragment"},
	} {
		if rule.broken {
			errs = append(errs, field.Invalid(at, text, rule.why))
		}
	}
	return errs
}

func validateClaimRules(rules []ClaimRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	claims, expressions := sets.New[string](), sets.New[string]()
	for i, rule := range rules {
		at := at.Index(i)
		switch {
		case rule.Claim != "" && rule.Expression != "":
			errs = append(errs, field.Invalid(at, rule.Claim, "claim and expression can't both be set"))
		case rule.Claim == "" && rule.Expression == "":
			errs = append(errs, field.Required(at, "claim or expression is required"))
		case rule.Claim != "" && rule.Message != "":
			errs = append(errs, field.Invalid(at.Child("message"), rule.Message, "may not be specified when claim is set"))
		case rule.Expression != "" && rule.RequiredValue != "":
			errs = append(errs, field.Invalid(at.Child("requiredValue"), rule.RequiredValue, "may not be specified when expression is set"))
		case rule.Claim != "" && claims.Has(rule.Claim):
			errs = append(errs, field.Duplicate(at.Child("claim"), rule.Claim))
		case rule.Expression != "" && expressions.Has(rule.Expression):
			errs = append(errs, field.Duplicate(at.Child("expression"), rule.Expression))
		}
		claims.Insert(rule.Claim)
		expressions.Insert(rule.Expression)
	}
	return errs
}

func validateMappings(m *ClaimMappings, at *field.Path) field.ErrorList {
	errs := validateMapping(&m.Username, at.Child("username"), true)
	errs = append(errs, validateMapping(&m.Groups, at.Child("groups"), false)...)
	if m.UID.Claim != "" && m.UID.Expression != "" {
		errs = append(errs, field.Invalid(at.Child("uid"), "", "claim and expression can't both be set"))
	}
	if m.UID.Prefix != nil {
		errs = append(errs, field.Forbidden(at.Child("uid", "prefix"), "a UID has no prefix"))
	}
	keys := sets.New[string]()
	for i, extra := range m.Extra {
		key := at.Child("extra").Index(i).Child("key")
		errs = append(errs, validateExtraKey(extra.Key, key)...)
		if keys.Has(extra.Key) {
			errs = append(errs, field.Duplicate(key, extra.Key))
		}
		keys.Insert(extra.Key)
		if extra.ValueExpression == "" {
			errs = append(errs, field.Required(at.Child("extra").Index(i).Child("valueExpression"), ""))
		}
	}
	return errs
}

func validateMapping(m *Mapping, at *field.Path, required bool) field.ErrorList {
	switch {
	case m.Claim != "" && m.Expression != "":
		return field.ErrorList{field.Invalid(at, "", "claim and expression can't both be set")}
	case required && m.Claim == "" && m.Expression == "":
		return field.ErrorList{field.Required(at, "claim or expression is required")}
	case m.Claim != "" && m.Prefix == nil:
		return field.ErrorList{field.Required(at.Child("prefix"), "prefix is required when claim is set. It can be set to an empty string to disable prefixing")}
	case m.Expression != "" && m.Prefix != nil:
		return field.ErrorList{field.Invalid(at.Child("prefix"), *m.Prefix, "may not be specified when expression is set")}
	}
	return nil
}

func validateExtraKey(key string, at *field.Path) field.ErrorList {
	if key == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := validation.IsDomainPrefixedPath(at, key)
	if key != strings.ToLower(key) {
		errs = append(errs, field.Invalid(at, key, "must be lowercase"))
	}
	domain, _, _ := strings.Cut(key, "/")
	for _, reserved := range []string{"kubernetes.io", "k8s.io"} {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			errs = append(errs, field.Invalid(at, key, "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"))
		}
	}
	return errs
}

func validateUserRules(rules []UserValidationRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, rule := range rules {
		switch at := at.Index(i).Child("expression"); {
		case rule.Expression == "":
			errs = append(errs, field.Required(at, ""))
		case seen.Has(rule.Expression):
			errs = append(errs, field.Duplicate(at, rule.Expression))
		}
		seen.Insert(rule.Expression)
	}
	return errs
}
