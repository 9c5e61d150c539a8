package authn

import (
	"context"
	"crypto/subtle"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/simulation"
)

// BootstrapTokens authenticates the bootstrap tokens that new nodes use to join a cluster. A token
// has the form ID.SECRET and is stored in the secret kube-system/bootstrap-token-ID. It is safe for
// concurrent use.
type BootstrapTokens struct{ Secrets Getter[*corev1.Secret] }

// bootstrappers is a group of the users of all bootstrap tokens. It is also the prefix of the other groups of
// these users.
const bootstrappers = "system:bootstrappers"

var (
	bootstrapToken = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)
	bootstrapGroup = regexp.MustCompile(`^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$`)
)

// User returns the user of a token. It returns nil, nil for tokens that do not have the form of a bootstrap
// token, and for unknown, expired or invalid tokens. An error means that the secret could not be read.
func (b BootstrapTokens) User(ctx context.Context, token string) (*request.User, error) {
	match := bootstrapToken.FindStringSubmatch(token)
	if match == nil {
		return nil, nil
	}
	id := match[1]
	secret, err := b.Secrets.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the secret of a bootstrap token: %w", err)
	case subtle.ConstantTimeCompare(secret.Data["token-secret"], []byte(match[2])) == 0 || !isUsable(secret, id, simulation.Now(ctx)):
		return nil, nil
	}
	groups, ok := bootstrapGroups(string(secret.Data["auth-extra-groups"]))
	if !ok {
		return nil, nil
	}
	return &request.User{Name: "system:bootstrap:" + id, Groups: groups}, nil
}

// isUsable reports whether a secret contains an unexpired bootstrap token for authentication.
func isUsable(secret *corev1.Secret, id string, now time.Time) bool {
	if secret.Type != "bootstrap.kubernetes.io/token" || secret.DeletionTimestamp != nil || string(secret.Data["token-id"]) != id ||
		string(secret.Data["usage-bootstrap-authentication"]) != "true" {
		return false
	}
	if ends := string(secret.Data["expiration"]); ends != "" {
		at, err := time.Parse(time.RFC3339, ends)
		return err == nil && now.Before(at)
	}
	return true
}

// bootstrapGroups returns the sorted groups of the user of a token. ok is false if a group is not allowed.
func bootstrapGroups(extra string) (groups []string, ok bool) {
	groups = []string{bootstrappers}
	if extra != "" {
		for group := range strings.SplitSeq(extra, ",") {
			if !bootstrapGroup.MatchString(group) {
				return nil, false
			}
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), true
}
