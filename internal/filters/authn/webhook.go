package authn

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"mainstay.dev/mainstay/internal/egress/webhook/review"
	"mainstay.dev/mainstay/internal/request"
)

// WebhookConfig configures WebhookTokens. Client, URL and Version are required.
type WebhookConfig struct {
	// Client sends the requests to URL.
	Client *http.Client
	URL    string
	// Version is the API version of the TokenReviews, either v1 or v1beta1.
	Version string
	// CacheTTL is the lifetime of cached responses, both positive and negative; 0 disables the
	// cache.
	CacheTTL time.Duration
}

// WebhookTokens is a TokenSource that verifies tokens with a webhook. If a call of the webhook fails, the
// verifier returns an error, which is not cached. WebhookTokens is safe for concurrent use.
type WebhookTokens struct {
	config  WebhookConfig
	webhook review.Webhook
	cache   *lru.Cache
	calls   singleflight.Group
}

// Limits of the cache and of calls to the webhook.
const (
	maxCachedReviews = 4096
	webhookTimeout   = 30 * time.Second
)

type cachedReview struct {
	status authenticationv1.TokenReviewStatus
	until  time.Time
}

// NewWebhookTokens returns a TokenSource with an empty cache. It does not contact the webhook.
func NewWebhookTokens(config WebhookConfig) *WebhookTokens {
	return &WebhookTokens{
		config: config, webhook: review.Webhook{Client: config.Client, URL: config.URL, Purpose: "tokens"}, cache: lru.New(maxCachedReviews),
	}
}

// Verifier implements TokenSource. All verifiers share one cache.
func (w *WebhookTokens) Verifier(audiences []string) TokenVerifier {
	return &webhookVerifier{w, audiences}
}

// webhookVerifier is the TokenVerifier of one server.
type webhookVerifier struct {
	tokens    *WebhookTokens
	audiences []string
}

// Verify implements TokenVerifier.
func (w *webhookVerifier) Verify(ctx context.Context, token string, audiences []string) (*request.User, []string, error) {
	if len(audiences) == 0 {
		audiences = w.audiences
	}
	status, err := w.tokens.review(ctx, token, audiences)
	if err != nil {
		return nil, nil, err
	}
	if !status.Authenticated {
		if status.Error != "" {
			return nil, nil, errors.New(status.Error)
		}
		return nil, nil, nil
	}
	has := status.Audiences
	if len(has) == 0 {
		has = w.audiences
	}
	granted := intersect(audiences, has)
	if len(granted) == 0 {
		return nil, nil, nil
	}
	return userOfReview(&status.User), granted, nil
}

// userOfReview returns a new user, because callers may modify the user, but must not modify info,
// which is cached.
func userOfReview(info *authenticationv1.UserInfo) *request.User {
	user := &request.User{Name: info.Username, UID: info.UID, Groups: append([]string(nil), info.Groups...)}
	for key, values := range info.Extra {
		if user.Extra == nil {
			user.Extra = make(map[string][]string, len(info.Extra))
		}
		user.Extra[key] = values
	}
	return user
}

// review returns the webhook's response for a token, possibly from the cache. Concurrent calls with
// the same token and audiences share one request.
func (w *WebhookTokens) review(ctx context.Context, token string, audiences []string) (*authenticationv1.TokenReviewStatus, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%q %q", token, audiences)) // quoted, because the values may contain any byte
	if known, ok := w.cache.Get(key); ok {
		if answer := known.(*cachedReview); time.Now().Before(answer.until) {
			return &answer.status, nil
		}
	}
	done := w.calls.DoChan(string(key[:]), func() (any, error) {
		// The call is shared, so it continues if its first caller is canceled.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), webhookTimeout)
		defer cancel()
		status, err := w.call(ctx, token, audiences)
		if err != nil {
			return nil, err
		}
		if w.config.CacheTTL > 0 {
			w.cache.Add(key, &cachedReview{*status, time.Now().Add(w.config.CacheTTL)})
		}
		return status, nil
	})
	select {
	case result := <-done:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*authenticationv1.TokenReviewStatus), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *WebhookTokens) call(ctx context.Context, token string, audiences []string) (*authenticationv1.TokenReviewStatus, error) {
	var answer authenticationv1.TokenReview
	err := w.webhook.Post(ctx, authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{Kind: "TokenReview", APIVersion: authenticationv1.GroupName + "/" + w.config.Version},
		Spec:     authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
	}, &answer)
	if err != nil {
		return nil, err
	}
	return &answer.Status, nil
}
