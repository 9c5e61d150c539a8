// Package bootstraptokens deletes expired bootstrap tokens, and signs the cluster information in
// kube-public with the others, like kube-controller-manager's token-cleaner-controller and
// bootstrap-signer-controller.
package bootstraptokens

import (
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage"
)

// Names of the controllers.
const (
	CleanerName = "token-cleaner-controller"
	SignerName  = "bootstrap-signer-controller"
)

// Names and keys of bootstrap token secrets in kube-system.
const (
	tokenType  = corev1.SecretType("bootstrap.kubernetes.io/token")
	namePrefix = "bootstrap-token-"

	idKey         = "token-id"
	secretKey     = "token-secret"
	expirationKey = "expiration"
	signingKey    = "usage-bootstrap-signing"
)

// Config configures the controllers. All fields except Queues are required.
type Config struct {
	// Secrets and ConfigMaps are the stored ones, past the watch cache.
	Secrets, ConfigMaps storage.Interface
	// Access is to the control plane; its user is replaced by the controllers'.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; may be nil.
	Queues *work.Metrics
}

func newConfig(d controllers.Dependencies) (Config, error) {
	config := Config{Access: d.Access, Logger: d.Logger, Queues: d.Queues}
	var err error
	if config.Secrets, err = d.Stored(corev1.Resource("secrets")); err != nil {
		return Config{}, err
	}
	if config.ConfigMaps, err = d.Stored(corev1.Resource("configmaps")); err != nil {
		return Config{}, err
	}
	return config, nil
}

// isSecret reports whether a change is of a secret that may be a token: its type is not
// known before it is decoded.
func isSecret(c *changes.Change) bool {
	return c.Path == "secrets" && c.Namespace == metav1.NamespaceSystem
}

// expiration returns when a token expires; zero: never. One that cannot be read was in the
// past.
func expiration(secret *corev1.Secret) time.Time {
	text := string(secret.Data[expirationKey])
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Unix(0, 0)
	}
	return at
}

// signingToken returns the token of a secret with which is signed now.
func signingToken(secret *corev1.Secret, now time.Time) (id, token string, ok bool) {
	id, token = string(secret.Data[idKey]), string(secret.Data[secretKey])
	named, found := strings.CutPrefix(secret.Name, namePrefix)
	ends := expiration(secret)
	ok = secret.Type == tokenType && found && id != "" && id == named && token != "" &&
		string(secret.Data[signingKey]) == "true" && (ends.IsZero() || now.Before(ends))
	return id, token, ok
}
