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

// WebhookConfig configures a webhook token verifier.
type WebhookConfig struct {
	// Client reaches the webhook at URL.
	Client *http.Client
	URL    string
	// Version is that of the TokenReviews that it is sent: v1 or v1beta1.
	Version string
	// CacheTTL is the cache duration of responses, positive and negative ones; 0 disables the
	// cache.
	CacheTTL time.Duration
}

// WebhookTokens verifies tokens with a webhook. If the webhook is unreachable, the token is
// unknown. Errors are not cached.
type WebhookTokens struct {
	config  WebhookConfig
	webhook review.Webhook
	answers *lru.Cache
	calls   singleflight.Group
}

// Limits of calls to webhooks.
const (
	rememberedAnswers = 4096
	webhookTimeout    = 30 * time.Second
)

// webhookAnswer is the webhook's response for a token.
type webhookAnswer struct {
	status authenticationv1.TokenReviewStatus
	until  time.Time
}

// NewWebhookTokens returns a verifier.
func NewWebhookTokens(config WebhookConfig) *WebhookTokens {
	return &WebhookTokens{
		config: config, webhook: review.Webhook{Client: config.Client, URL: config.URL, Purpose: "tokens"}, answers: lru.New(rememberedAnswers),
	}
}

// For returns the verifier of a server with these audiences of its own.
func (w *WebhookTokens) For(audiences []string) TokenVerifier { return &webhookTokens{w, audiences} }

// webhookTokens are WebhookTokens for a server.
type webhookTokens struct {
	webhook   *WebhookTokens
	audiences []string
}

// Verify implements TokenVerifier.
func (w *webhookTokens) Verify(ctx context.Context, token string, audiences []string) (*request.User, []string, error) {
	if len(audiences) == 0 {
		audiences = w.audiences
	}
	status, err := w.webhook.ask(ctx, token, audiences)
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
	granted := common(audiences, has)
	if len(granted) == 0 {
		return nil, nil, nil
	}
	return userOfReview(&status.User), granted, nil
}

// userOfReview returns a user of the caller's own.
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

// ask returns the webhook's response for a token, possibly cached. Concurrent requests with the
// same token share one call.
func (w *WebhookTokens) ask(ctx context.Context, token string, audiences []string) (*authenticationv1.TokenReviewStatus, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%q %q", token, audiences)) // quoted: either may contain any byte
	if known, ok := w.answers.Get(key); ok {
		if answer := known.(*webhookAnswer); time.Now().Before(answer.until) {
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
			w.answers.Add(key, &webhookAnswer{*status, time.Now().Add(w.config.CacheTTL)})
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
