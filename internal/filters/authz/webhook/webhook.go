// Package webhook authorizes with a webhook that receives SubjectAccessReviews. CEL conditions
// select the requests for the webhook, and decisions are cached.
package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/egress/webhook/review"
)

// Config configures an Authorizer. Client, URL, Timeout and Version are required.
type Config struct {
	// Name is the name of the webhook in metrics. Metrics may be nil.
	Name    string
	Metrics *Metrics
	// Client sends the requests to URL. Timeout applies to each attempt.
	Client  *http.Client
	URL     string
	Timeout time.Duration
	// Version is the API version of the SubjectAccessReviews, either v1 or v1beta1.
	Version string
	// AllowedTTL and OtherTTL are the lifetimes of cached decisions, for allowed and other
	// requests; 0 disables the cache.
	AllowedTTL, OtherTTL time.Duration
	// Conditions select the requests for the webhook. For other requests, the decision is DecisionNoOpinion.
	// nil selects all requests.
	Conditions *Conditions
	// DenyOnError selects DecisionDeny if a call of the webhook or a condition fails. If
	// DenyOnError is false, the decision is then DecisionNoOpinion.
	DenyOnError bool
}

// Limits of the cache, as in kube-apiserver. maxCachedDecisions is the maximum number of decisions. Responses
// are not cached for requests whose client-controlled data has maxCacheableSize or more bytes.
const (
	maxCachedDecisions = 8192
	maxCacheableSize   = 10_000
)

// Authorizer calls a webhook and caches its decisions. It is safe for concurrent use.
type Authorizer struct {
	config  Config
	webhook review.Webhook
	cache   *lru.Cache
}

type cachedDecision struct {
	status authorizationv1.SubjectAccessReviewStatus
	until  time.Time
}

// New returns an Authorizer with an empty cache. It does not contact the webhook.
func New(config Config) *Authorizer {
	return &Authorizer{
		config:  config,
		webhook: review.Webhook{Client: config.Client, URL: config.URL, Purpose: "authorization", Timeout: config.Timeout},
		cache:   lru.New(maxCachedDecisions),
	}
}

// Authorize implements authorizer.Authorizer. It blocks until the webhook has responded, unless the
// decision is cached, and retries failed calls.
func (w *Authorizer) Authorize(ctx context.Context, a *authorizer.Attributes) (authorizer.Decision, string, error) {
	spec := specOf(a)
	if matches, err := w.config.Conditions.match(ctx, spec, w.config.Metrics, w.config.Name); err != nil {
		return w.onError(), "", err
	} else if !matches {
		return authorizer.DecisionNoOpinion, "", nil
	}
	status, err := w.review(ctx, spec, clientDataSize(a) < maxCacheableSize)
	if err != nil {
		return w.onError(), "", err
	}
	switch {
	case status.Denied && status.Allowed:
		return authorizer.DecisionDeny, status.Reason, errors.New("webhook subject access review returned both allow and deny response")
	case status.Denied:
		return authorizer.DecisionDeny, status.Reason, nil
	case status.Allowed:
		return authorizer.DecisionAllow, status.Reason, nil
	}
	return authorizer.DecisionNoOpinion, status.Reason, nil
}

func (w *Authorizer) onError() authorizer.Decision {
	if w.config.DenyOnError {
		return authorizer.DecisionDeny
	}
	return authorizer.DecisionNoOpinion
}

// review returns the webhook's response, possibly from the cache. If cacheable is false, the
// response is not added to the cache. Failures are never cached.
func (w *Authorizer) review(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec, cacheable bool) (*authorizationv1.SubjectAccessReviewStatus, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("call the authorization webhook: %w", err)
	}
	key := sha256.Sum256(text)
	if known, ok := w.cache.Get(key); ok {
		if known := known.(*cachedDecision); time.Now().Before(known.until) {
			return &known.status, nil
		}
	}
	status, err := w.call(ctx, spec)
	if err != nil {
		return nil, err
	}
	ttl := w.config.OtherTTL
	if status.Allowed {
		ttl = w.config.AllowedTTL
	}
	if cacheable && ttl > 0 {
		w.cache.Add(key, &cachedDecision{*status, time.Now().Add(ttl)})
	}
	return status, nil
}

func (w *Authorizer) call(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (*authorizationv1.SubjectAccessReviewStatus, error) {
	webhook := w.webhook
	var result string
	webhook.OnAttempt = func(err error, took time.Duration) {
		result = resultOf(ctx, err)
		w.config.Metrics.observeCall(w.config.Name, result, took)
	}
	var response authorizationv1.SubjectAccessReview
	if err := webhook.Post(ctx, reviewOf(spec, w.config.Version), &response); err != nil {
		if !w.config.DenyOnError && ctx.Err() == nil {
			w.config.Metrics.countFailOpen(w.config.Name, result)
		}
		return nil, err
	}
	return &response.Status, nil
}

// reviewV1beta1 is a v1beta1 SubjectAccessReview, in which the field groups is called group.
type reviewV1beta1 struct {
	metav1.TypeMeta `json:",inline"`
	Spec            specV1beta1 `json:"spec"`
}

type specV1beta1 struct {
	*authorizationv1.SubjectAccessReviewSpec
	Groups []string `json:"groups,omitempty"` // hides the embedded field
	Group  []string `json:"group,omitempty"`
}

// reviewOf returns the request body in an API version.
func reviewOf(spec *authorizationv1.SubjectAccessReviewSpec, version string) any {
	head := metav1.TypeMeta{Kind: "SubjectAccessReview", APIVersion: authorizationv1.GroupName + "/" + version}
	if version == "v1beta1" {
		return &reviewV1beta1{TypeMeta: head, Spec: specV1beta1{SubjectAccessReviewSpec: spec, Group: spec.Groups}}
	}
	return &authorizationv1.SubjectAccessReview{TypeMeta: head, Spec: *spec}
}

func specOf(a *authorizer.Attributes) *authorizationv1.SubjectAccessReviewSpec {
	spec := &authorizationv1.SubjectAccessReviewSpec{}
	if u := a.User; u != nil {
		spec.User, spec.UID, spec.Groups = u.Name, u.UID, u.Groups
		for key, values := range u.Extra {
			if spec.Extra == nil {
				spec.Extra = make(map[string]authorizationv1.ExtraValue, len(u.Extra))
			}
			spec.Extra[key] = values
		}
	}
	if !a.ResourceRequest {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
		return spec
	}
	spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: a.Namespace, Verb: a.Verb, Group: a.APIGroup, Version: a.APIVersion,
		Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
		FieldSelector: fieldSelectorOf(a), LabelSelector: labelSelectorOf(a),
	}
	return spec
}

// clientDataSize returns the size of the client-controlled data of a request, in bytes.
func clientDataSize(a *authorizer.Attributes) int {
	return len(a.Namespace) + len(a.Verb) + len(a.APIGroup) + len(a.APIVersion) + len(a.Resource) + len(a.Subresource) + len(a.Name) + len(a.Path)
}
