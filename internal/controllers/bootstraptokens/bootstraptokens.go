// Package bootstraptokens deletes expired bootstrap tokens, and signs the ConfigMap kube-public/cluster-info
// with the valid tokens. It implements kube-controller-manager's token-cleaner-controller and
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

// The names of the controllers.
const (
	CleanerName = "token-cleaner-controller"
	SignerName  = "bootstrap-signer-controller"
)

// The type, the name prefix and the data keys of bootstrap token Secrets in kube-system.
const (
	tokenType  = corev1.SecretType("bootstrap.kubernetes.io/token")
	namePrefix = "bootstrap-token-"

	idKey         = "token-id"
	secretKey     = "token-secret"
	expirationKey = "expiration"
	signingKey    = "usage-bootstrap-signing"
)

// Config configures the controllers. All fields except QueueMetrics are required.
type Config struct {
	// Secrets and ConfigMaps read Secrets and ConfigMaps without a watch cache.
	Secrets, ConfigMaps storage.Interface
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

func newConfig(d controllers.Dependencies) (Config, error) {
	config := Config{Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics}
	var err error
	if config.Secrets, err = d.OpenStorage(corev1.Resource("secrets")); err != nil {
		return Config{}, err
	}
	if config.ConfigMaps, err = d.OpenStorage(corev1.Resource("configmaps")); err != nil {
		return Config{}, err
	}
	return config, nil
}

// mayBeToken reports whether a change affects a Secret in the namespace of bootstrap tokens. The type of the
// Secret is not known until it is decoded.
func mayBeToken(c *changes.Change) bool {
	return c.Path == "secrets" && c.Namespace == metav1.NamespaceSystem
}

// expiration returns the expiration time of a token, or the zero time if the token does not expire. For an
// invalid expiration, it returns a time in the past.
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

// signingToken returns the ID and the token in a Secret. ok is false if the Secret is not a token that is valid
// for signing at the time now.
func signingToken(secret *corev1.Secret, now time.Time) (id, token string, ok bool) {
	id, token = string(secret.Data[idKey]), string(secret.Data[secretKey])
	named, found := strings.CutPrefix(secret.Name, namePrefix)
	ends := expiration(secret)
	ok = secret.Type == tokenType && found && id != "" && id == named && token != "" &&
		string(secret.Data[signingKey]) == "true" && (ends.IsZero() || now.Before(ends))
	return id, token, ok
}
