package authn

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/simulation"
)

// Getter reads an object. The result is shared and must not be modified. If the object does not
// exist, the error satisfies apierrors.IsNotFound. It is safe for concurrent use.
type Getter[T any] interface {
	Get(ctx context.Context, name types.NamespacedName) (T, error)
}

// Updater updates an object. change may be called several times, each time with a new copy of the
// object. If change does not modify the copy, nothing is written. It is safe for concurrent use.
type Updater[T any] interface {
	Update(ctx context.Context, name types.NamespacedName, change func(T) error) (T, error)
}

// ServiceAccountConfig configures ServiceAccounts.
type ServiceAccountConfig struct {
	Keys serviceaccount.Keys
	// Issuers are the accepted issuers, in addition to serviceaccount.LegacyIssuer.
	Issuers []string
	// Audiences are the audiences of the server. By default, a token must be valid for one of them.
	Audiences []string

	// Getters of the objects that tokens refer to. A token is valid only while these objects exist,
	// so the getters must return current objects.
	Accounts Getter[*corev1.ServiceAccount]
	Pods     Getter[*corev1.Pod]
	Secrets  Getter[*corev1.Secret]
	Nodes    Getter[*corev1.Node]
	// UsedSecrets is used to record the date on which a token was last used in the token's secret.
	// If it is nil, the date is not recorded.
	UsedSecrets Updater[*corev1.Secret]
	// SkipLookup accepts tokens of secrets even if the secret or account was deleted.
	SkipLookup bool

	// Metrics counts uses of tokens; may be nil.
	Metrics *ServiceAccountMetrics
	Logger  *slog.Logger // nil disables the log
}

// ServiceAccounts verifies tokens of service accounts, including tokens in secrets
// (serviceaccount.LegacyIssuer). It caches verified signatures, but checks the objects for each
// request, so that the deletion of a service account or a bound object revokes the tokens. It is
// safe for concurrent use.
type ServiceAccounts struct {
	config ServiceAccountConfig
	// verified maps the verifiedToken of a token with a valid signature to its *serviceaccount.Claims.
	verified *lru.Cache
}

// verifiedToken is the cache key of a token. It contains the token's SHA-256 and the generation of
// the keys that verified the token.
type verifiedToken struct {
	sum        [sha256.Size]byte
	generation uint64
}

// maxVerifiedTokens is the maximum number of entries of ServiceAccounts.verified. An entry uses
// about 1 KiB.
const maxVerifiedTokens = 4096

// NewServiceAccounts returns a verifier with an empty cache. Keys, Accounts, Pods, Secrets and
// Nodes are required.
func NewServiceAccounts(config ServiceAccountConfig) *ServiceAccounts {
	if config.Metrics == nil {
		config.Metrics, _ = NewServiceAccountMetrics(prometheus.NewRegistry()) // unregistered metrics
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &ServiceAccounts{config: config, verified: lru.New(maxVerifiedTokens)}
}

// Verify implements TokenVerifier.
func (s *ServiceAccounts) Verify(ctx context.Context, token string, audiences []string) (*request.User, []string, error) {
	claims, err := s.claims(ctx, token)
	if claims == nil {
		return nil, nil, err
	}
	granted, err := s.grantedAudiences(ctx, claims, audiences)
	if err != nil {
		return nil, nil, err
	}
	var user *request.User
	if claims.Issuer == serviceaccount.LegacyIssuer {
		user, err = s.userOfSecretToken(ctx, token, claims)
	} else {
		user, err = s.userOfBoundToken(ctx, claims)
	}
	if err != nil {
		return nil, nil, err
	}
	return user, granted, nil
}

// claims returns the claims of a token with a valid signature, possibly from the cache. It returns
// nil, nil for tokens of other issuers.
func (s *ServiceAccounts) claims(ctx context.Context, token string) (*serviceaccount.Claims, error) {
	key := verifiedToken{sha256.Sum256([]byte(token)), s.config.Keys.Generation()}
	if known, ok := s.verified.Get(key); ok {
		return known.(*serviceaccount.Claims), nil
	}
	parsed := serviceaccount.Parse(token)
	if parsed == nil || parsed.Issuer != serviceaccount.LegacyIssuer && !slices.Contains(s.config.Issuers, parsed.Issuer) {
		return nil, nil
	}
	claims, err := s.config.Keys.Verify(ctx, parsed)
	if err != nil {
		return nil, err
	}
	if claims.Issuer != parsed.Issuer { // the issuer in parsed has not been verified
		return nil, fmt.Errorf("token issuer %q is invalid", claims.Issuer)
	}
	s.verified.Add(key, claims)
	return claims, nil
}

// grantedAudiences returns the requested audiences for which a token is valid, or an error if there
// are none. If requested is empty, it uses the audiences of the server.
func (s *ServiceAccounts) grantedAudiences(ctx context.Context, claims *serviceaccount.Claims, requested []string) ([]string, error) {
	has := []string(claims.Audience)
	if len(has) == 0 {
		s.config.Metrics.legacy.Inc()
		_ = request.Annotate(ctx, "authentication.k8s.io/legacy-token", claims.Subject) // fails only if the event is full
		has = s.config.Audiences
	}
	if len(requested) == 0 {
		requested = s.config.Audiences
	}
	granted := intersect(has, requested)
	if len(granted) == 0 {
		return nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", has, requested)
	}
	return granted, nil
}

// errInvalidated is returned to the client for a token whose bound object was deleted.
var errInvalidated = errors.New("service account token has been invalidated")

// userOfBoundToken checks the times and the bound objects of a token, and returns its user.
func (s *ServiceAccounts) userOfBoundToken(ctx context.Context, claims *serviceaccount.Claims) (*request.User, error) {
	now, names := simulation.Now(ctx), claims.Bound
	if err := checkTimes(&claims.Claims, now); err != nil {
		return nil, err
	}
	if names == nil {
		return nil, errors.New("service account token claims could not be validated due to unexpected private claim")
	}
	account, err := s.config.Accounts.Get(ctx, types.NamespacedName{Namespace: names.Namespace, Name: names.ServiceAccount.Name})
	switch {
	case err != nil:
		return nil, err
	case deleted(account, now):
		return nil, fmt.Errorf("service account %s/%s has been deleted", names.Namespace, names.ServiceAccount.Name)
	case string(account.UID) != names.ServiceAccount.UID:
		return nil, fmt.Errorf("service account UID (%s) does not match claim (%s)", account.UID, names.ServiceAccount.UID)
	}
	if err := s.checkBound(ctx, names, now); err != nil {
		return nil, err
	}
	s.countUse(ctx, claims, now)
	return accountUser(names, claims.ID), nil
}

// checkTimes checks the validity period with a tolerance of one minute (jwt.DefaultLeeway) for
// clock differences.
func checkTimes(claims *jwt.Claims, now time.Time) error {
	err := claims.Validate(jwt.Expected{Time: now})
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("service account token is issued in the future")
	case err != nil:
		return fmt.Errorf("service account token claims could not be validated: %w", err)
	}
	return nil
}

// checkBound checks that the bound object of a token exists. It checks the node only if the token is not bound
// to a pod or secret. A token that is bound to a pod also contains the name of the node, but only for
// information.
func (s *ServiceAccounts) checkBound(ctx context.Context, names *serviceaccount.Bound, now time.Time) error {
	if err := checkRef(ctx, s.config.Secrets, "secret", names.Namespace, names.Secret, now); err != nil {
		return err
	}
	if err := checkRef(ctx, s.config.Pods, "pod", names.Namespace, names.Pod, now); err != nil {
		return err
	}
	if names.Secret != nil || names.Pod != nil {
		return nil
	}
	return checkRef(ctx, s.config.Nodes, "node", "", names.Node, now)
}

func checkRef[T metav1.Object](ctx context.Context, objects Getter[T], what, namespace string, ref *serviceaccount.Ref, now time.Time) error {
	if ref == nil {
		return nil
	}
	obj, err := objects.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ref.Name})
	if err != nil || deleted(obj, now) {
		return errInvalidated
	}
	if uid := string(obj.GetUID()); uid != ref.UID {
		return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)", what, uid, what, ref.UID)
	}
	return nil
}

// deleted reports whether the deletion timestamp of an object has passed, with a tolerance of one minute
// (jwt.DefaultLeeway). For a pod, the timestamp is the end of the grace period.
func deleted(obj metav1.Object, now time.Time) bool {
	at := obj.GetDeletionTimestamp()
	return at != nil && at.Time.Before(now.Add(-jwt.DefaultLeeway))
}

// countUse counts uses of tokens with an extended lifetime, which clients should refresh after
// WarnAfter.
func (s *ServiceAccounts) countUse(ctx context.Context, claims *serviceaccount.Claims, now time.Time) {
	warnAfter := claims.Bound.WarnAfter
	if warnAfter == nil || *warnAfter == 0 {
		return
	}
	if !now.After(warnAfter.Time()) {
		s.config.Metrics.valid.Inc()
		return
	}
	s.config.Metrics.stale.Inc()
	_ = request.Annotate(ctx, "authentication.k8s.io/stale-token", fmt.Sprintf("subject: %s, seconds after warning threshold: %d",
		claims.Subject, now.Unix()-warnAfter.Time().Unix()))
}

func accountUser(names *serviceaccount.Bound, tokenID string) *request.User {
	user := &request.User{
		Name: request.ServiceAccountUser(names.Namespace, names.ServiceAccount.Name), UID: names.ServiceAccount.UID,
		Groups: request.ServiceAccountGroups(names.Namespace), Extra: map[string][]string{},
	}
	set := func(key, value string) {
		if value != "" {
			user.Extra[key] = []string{value}
		}
	}
	if tokenID != "" {
		set(request.ExtraCredentialID, serviceaccount.CredentialID(tokenID))
	}
	if pod := names.Pod; pod != nil && pod.Name != "" && pod.UID != "" {
		set(request.ExtraPodName, pod.Name)
		set(request.ExtraPodUID, pod.UID)
	}
	if node := names.Node; node != nil && node.Name != "" {
		set(request.ExtraNodeName, node.Name)
		set(request.ExtraNodeUID, node.UID)
	}
	return user
}
