package review_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"mainstay.dev/mainstay/internal/egress/webhook/review"
)

// TestRedirect checks that a webhook cannot redirect a review, which contains the token of a user, to another
// server.
func TestRedirect(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			t.Errorf("%d: the other server received %s %s", code, r.Method, body)
		}))
		t.Cleanup(other.Close)
		webhook := httptest.NewServer(http.RedirectHandler(other.URL, code))
		t.Cleanup(webhook.Close)
		w := review.Webhook{Client: webhook.Client(), URL: webhook.URL, Purpose: "tokens"}
		err := w.Post(t.Context(), authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "secret"}}, &authenticationv1.TokenReview{})
		if rejected := new(review.StatusError); !errors.As(err, &rejected) || rejected.Code != code {
			t.Errorf("%d: %v; want a StatusError with this code", code, err)
		}
	}
}
