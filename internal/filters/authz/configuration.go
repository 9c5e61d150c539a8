package authz

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/filters/authz/webhook"
)

// Types of authorizers.
const (
	TypeAlwaysAllow = "AlwaysAllow"
	TypeAlwaysDeny  = "AlwaysDeny"
	TypeABAC        = "ABAC"
	TypeNode        = "Node"
	TypeRBAC        = "RBAC"
	TypeWebhook     = "Webhook"
)

// Types returns all types of authorizers in a new slice, sorted by name.
func Types() []string {
	return []string{TypeABAC, TypeAlwaysAllow, TypeAlwaysDeny, TypeNode, TypeRBAC, TypeWebhook}
}

// Configuration is an AuthorizationConfiguration of apiserver.config.k8s.io/v1 or v1beta1, which
// have the same fields.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	Authorizers     []AuthorizerConfiguration `json:"authorizers"`
}

// AuthorizerConfiguration configures one authorizer. Webhook is set only for TypeWebhook.
type AuthorizerConfiguration struct {
	Type    string                `json:"type"`
	Name    string                `json:"name"`
	Webhook *WebhookConfiguration `json:"webhook,omitempty"`
}

// WebhookConfiguration configures a webhook authorizer. A nil *bool means true.
type WebhookConfiguration struct {
	AuthorizedTTL                            metav1.Duration `json:"authorizedTTL"`
	CacheAuthorizedRequests                  *bool           `json:"cacheAuthorizedRequests,omitempty"`
	UnauthorizedTTL                          metav1.Duration `json:"unauthorizedTTL"`
	CacheUnauthorizedRequests                *bool           `json:"cacheUnauthorizedRequests,omitempty"`
	Timeout                                  metav1.Duration `json:"timeout"`
	SubjectAccessReviewVersion               string          `json:"subjectAccessReviewVersion"`
	MatchConditionSubjectAccessReviewVersion string          `json:"matchConditionSubjectAccessReviewVersion"`
	FailurePolicy                            string          `json:"failurePolicy"`
	ConnectionInfo                           struct {
		Type           string  `json:"type"`
		KubeConfigFile *string `json:"kubeConfigFile"`
	} `json:"connectionInfo"`
	MatchConditions []struct {
		Expression string `json:"expression"`
	} `json:"matchConditions"`
}

// Default cache lifetimes of webhook decisions, and the maximum timeout of a webhook. The values are
// the same as in kube-apiserver.
const (
	DefaultAuthorizedTTL   = 5 * time.Minute
	DefaultUnauthorizedTTL = 30 * time.Second
	MaxWebhookTimeout      = 30 * time.Second
)

// ParseConfiguration parses a configuration in YAML or JSON and sets defaults. Unknown fields are
// an error. It does not validate the values; Open does.
func ParseConfiguration(data []byte) (*Configuration, error) {
	const group = "apiserver.config.k8s.io"
	c := new(Configuration)
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, err
	}
	if c.Kind != "AuthorizationConfiguration" || c.APIVersion != group+"/v1" && c.APIVersion != group+"/v1beta1" {
		return nil, fmt.Errorf("it is a %s of %s; it must be an AuthorizationConfiguration of %s/v1 or v1beta1", c.Kind, c.APIVersion, group)
	}
	for i := range c.Authorizers {
		if w := c.Authorizers[i].Webhook; w != nil {
			if w.AuthorizedTTL.Duration == 0 {
				w.AuthorizedTTL.Duration = DefaultAuthorizedTTL
			}
			if w.UnauthorizedTTL.Duration == 0 {
				w.UnauthorizedTTL.Duration = DefaultUnauthorizedTTL
			}
		}
	}
	return c, nil
}

// Open validates the configuration and returns its authorizers in order. It reads the kubeconfig
// files of webhooks, but does not contact the webhooks. The error contains all problems by field.
// For authorizers that the control plane provides, Authorizer is nil. metrics may be nil. dial
// connects to the webhooks; nil connects directly.
func (c *Configuration) Open(metrics *webhook.Metrics, dial egress.Dial) ([]NamedAuthorizer, error) {
	at := field.NewPath("authorizers")
	var errs field.ErrorList
	if len(c.Authorizers) == 0 {
		errs = append(errs, field.Required(at, "at least one authorization mode must be defined"))
	}
	var list []NamedAuthorizer
	for i := range c.Authorizers {
		a := &c.Authorizers[i]
		errs = append(errs, a.check(at.Index(i), c.Authorizers[:i])...)
		l := NamedAuthorizer{Type: a.Type, Name: a.Name, Authorizer: constantAuthorizer(a.Type)}
		if a.Type == TypeWebhook && a.Webhook != nil {
			opened, more := a.Webhook.open(at.Index(i), a.Name, metrics, dial)
			errs = append(errs, more...)
			l.Authorizer = opened
		}
		list = append(list, l)
	}
	if err := errs.ToAggregate(); err != nil {
		return nil, err
	}
	return list, nil
}

// check returns the errors in the configuration of an authorizer, except errors in the field
// webhook. before contains the preceding authorizers, to find duplicates.
func (a *AuthorizerConfiguration) check(at *field.Path, before []AuthorizerConfiguration) field.ErrorList {
	has := func(same func(AuthorizerConfiguration) bool) bool { return slices.ContainsFunc(before, same) }
	switch {
	case a.Type == "":
		return field.ErrorList{field.Required(at.Child("type"), "")}
	case !slices.Contains(Types(), a.Type):
		return field.ErrorList{field.NotSupported(at.Child("type"), a.Type, Types())}
	case a.Type != TypeWebhook && has(func(o AuthorizerConfiguration) bool { return o.Type == a.Type }):
		return field.ErrorList{field.Duplicate(at.Child("type"), a.Type)}
	}
	var errs field.ErrorList
	switch problems := utilvalidation.IsDNS1123Subdomain(a.Name); {
	case a.Name == "":
		errs = append(errs, field.Required(at.Child("name"), ""))
	case has(func(o AuthorizerConfiguration) bool { return o.Name == a.Name }):
		errs = append(errs, field.Duplicate(at.Child("name"), a.Name))
	case len(problems) > 0:
		errs = append(errs, field.Invalid(at.Child("name"), a.Name, "authorizer name is invalid: "+strings.Join(problems, ", ")))
	}
	switch {
	case a.Type == TypeWebhook && a.Webhook == nil:
		errs = append(errs, field.Required(at.Child("webhook"), "required when type=Webhook"))
	case a.Type != TypeWebhook && a.Webhook != nil:
		errs = append(errs, field.Invalid(at.Child("webhook"), "non-null", "may only be specified when type=Webhook"))
	}
	return errs
}

func (w *WebhookConfiguration) open(at *field.Path, name string, metrics *webhook.Metrics, dial egress.Dial) (*webhook.Authorizer, field.ErrorList) {
	errs := w.check(at)
	var texts []string
	for i := range w.MatchConditions {
		texts = append(texts, w.MatchConditions[i].Expression)
	}
	conditions, more := webhook.NewConditions(texts, at.Child("matchConditions"))
	if errs = append(errs, more...); len(errs) > 0 {
		return nil, errs
	}
	file := *w.ConnectionInfo.KubeConfigFile
	client, url, err := kubeconfig.Client(file, dial)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at.Child("connectionInfo", "kubeConfigFile"), file, err.Error())}
	}
	return webhook.New(webhook.Config{
		Name: name, Metrics: metrics, Client: client, URL: url, Timeout: w.Timeout.Duration, Version: w.SubjectAccessReviewVersion,
		AllowedTTL: cacheTTL(w.CacheAuthorizedRequests, w.AuthorizedTTL), OtherTTL: cacheTTL(w.CacheUnauthorizedRequests, w.UnauthorizedTTL),
		Conditions: conditions, DenyOnError: w.FailurePolicy == "Deny",
	}), nil
}

// cacheTTL returns the lifetime of cached decisions; 0 disables the cache.
func cacheTTL(cached *bool, ttl metav1.Duration) time.Duration {
	if cached != nil && !*cached {
		return 0
	}
	return ttl.Duration
}

// check returns the errors in the configuration of a webhook, except errors in the match conditions.
func (w *WebhookConfiguration) check(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	oneOf := func(name, value string, values ...string) {
		switch {
		case value == "":
			errs = append(errs, field.Required(at.Child(name), ""))
		case !slices.Contains(values, value):
			errs = append(errs, field.NotSupported(at.Child(name), value, values))
		}
	}
	switch timeout := w.Timeout.Duration; {
	case timeout == 0:
		errs = append(errs, field.Required(at.Child("timeout"), ""))
	case timeout < 0 || timeout > MaxWebhookTimeout:
		errs = append(errs, field.Invalid(at.Child("timeout"), timeout.String(), "must be > 0s and <= 30s"))
	}
	for name, ttl := range map[string]time.Duration{"authorizedTTL": w.AuthorizedTTL.Duration, "unauthorizedTTL": w.UnauthorizedTTL.Duration} {
		if ttl < 0 {
			errs = append(errs, field.Invalid(at.Child(name), ttl.String(), "must be > 0s"))
		}
	}
	oneOf("subjectAccessReviewVersion", w.SubjectAccessReviewVersion, "v1", "v1beta1")
	switch version := w.MatchConditionSubjectAccessReviewVersion; {
	case version == "" && len(w.MatchConditions) > 0:
		errs = append(errs, field.Required(at.Child("matchConditionSubjectAccessReviewVersion"), "required if match conditions are specified"))
	case version != "":
		oneOf("matchConditionSubjectAccessReviewVersion", version, "v1")
	}
	oneOf("failurePolicy", w.FailurePolicy, "NoOpinion", "Deny")
	return append(errs, w.checkConnection(at.Child("connectionInfo"))...)
}

func (w *WebhookConfiguration) checkConnection(at *field.Path) field.ErrorList {
	one := func(err *field.Error) field.ErrorList { return field.ErrorList{err} }
	switch w.ConnectionInfo.Type {
	case "":
		return one(field.Required(at.Child("type"), ""))
	case "KubeConfigFile":
	default: // as documented, an API server does not support InClusterConfig
		return one(field.NotSupported(at.Child("type"), w.ConnectionInfo.Type, []string{"KubeConfigFile"}))
	}
	file := w.ConnectionInfo.KubeConfigFile
	at = at.Child("kubeConfigFile")
	if file == nil || *file == "" {
		return one(field.Required(at, ""))
	}
	if err := isFile(*file); err != nil {
		return one(field.Invalid(at, *file, err.Error()))
	}
	return nil
}

func isFile(name string) error {
	if !filepath.IsAbs(name) {
		return errors.New("must be an absolute path")
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return fmt.Errorf("error loading file: %w", err)
	case !info.Mode().IsRegular():
		return errors.New("must be a regular file")
	}
	return nil
}
