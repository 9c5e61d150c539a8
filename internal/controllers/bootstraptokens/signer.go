package bootstraptokens

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
)

// The signed ConfigMap, the key of the kubeconfig in it, and the prefix of the keys of the signatures, one for
// each token.
const (
	clusterInfo     = "cluster-info"
	kubeconfigKey   = "kubeconfig"
	signaturePrefix = "jws-kubeconfig-"
)

// Signer implements bootstrap-signer-controller. It signs the kubeconfig in the ConfigMap
// kube-public/cluster-info, if this ConfigMap exists. Joining nodes do not have the CA certificate yet, so they
// verify the kubeconfig with the signature and their bootstrap token. Signer starts no goroutine before Start.
type Signer struct {
	config     Config
	configMaps *loopback.Client[*corev1.ConfigMap]
}

// SignerRegistration returns the registration of the controller. As in kube-controller-manager, the controller
// runs only if --controllers lists it.
func SignerRegistration() controllers.Registration {
	return controllers.Registration{Name: SignerName, Optional: true, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		config, err := newConfig(d)
		if err != nil {
			return nil, err
		}
		return NewSigner(config), nil
	}}
}

// NewSigner creates the controller without starting it.
func NewSigner(config Config) *Signer {
	return &Signer{config: config, configMaps: loopback.For[*corev1.ConfigMap](config.Access.AsController("bootstrap-signer"), corev1.SchemeGroupVersion.WithResource("configmaps"))}
}

// queueKey is the only key of the queue.
type queueKey struct{}

// Start implements controllers.Controller.
func (s *Signer) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[queueKey]{Name: SignerName, Workers: 1, Sync: s.sync, Logger: s.config.Logger, Metrics: s.config.QueueMetrics})
	return &signerSubscriber{queue}, queue.Close
}

// signerSubscriber enqueues queueKey when the ConfigMap or a token changes.
type signerSubscriber struct{ queue *work.Queue[queueKey] }

// Reset implements changes.Subscriber.
func (*signerSubscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*signerSubscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *signerSubscriber) Changed(c *changes.Change) {
	isInfo := c.Path == "configmaps" && c.Namespace == metav1.NamespacePublic && c.Name == clusterInfo && c.Value != nil
	if isInfo || mayBeToken(c) && strings.HasPrefix(c.Name, namePrefix) {
		s.queue.Add(queueKey{})
	}
}

// sync writes the signatures of all valid tokens to the ConfigMap, and removes all other signatures.
func (s *Signer) sync(ctx context.Context, _ queueKey) error {
	name := types.NamespacedName{Namespace: metav1.NamespacePublic, Name: clusterInfo}
	info, err := storage.FindAs[*corev1.ConfigMap](ctx, s.config.ConfigMaps, name)
	if err != nil || info == nil {
		return err
	}
	tokens, err := s.tokens(ctx)
	if err != nil {
		return err
	}
	if desired, ok := withSignatures(info.Data, tokens); !ok || maps.Equal(desired, info.Data) {
		return nil
	}
	_, err = s.configMaps.Update(ctx, name, func(current *corev1.ConfigMap) error {
		if desired, ok := withSignatures(current.Data, tokens); ok {
			current.Data = desired
		}
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("sign %s: %w", name, err)
	}
	return nil
}

// tokens returns the tokens that are valid for signing, by token ID.
func (s *Signer) tokens(ctx context.Context) (map[string]string, error) {
	list, err := s.config.Secrets.List(ctx, metav1.NamespaceSystem, rest.ListOptions{})
	if err != nil {
		return nil, err
	}
	tokens := map[string]string{}
	for record, err := range list.Items {
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(record.Name().Name, namePrefix) {
			continue
		}
		secret, err := codec.SharedAs[*corev1.Secret](record)
		if err != nil {
			return nil, err
		}
		if id, token, ok := signingToken(secret, simulation.Now(ctx)); ok {
			tokens[id] = token
		}
	}
	return tokens, nil
}

// withSignatures returns a copy of the data of a ConfigMap, in which the signatures are those of the tokens. It
// returns false if data contains no kubeconfig.
func withSignatures(data, tokens map[string]string) (map[string]string, bool) {
	kubeconfig, ok := data[kubeconfigKey]
	if !ok {
		return nil, false
	}
	with := maps.Clone(data)
	maps.DeleteFunc(with, func(key, _ string) bool { return strings.HasPrefix(key, signaturePrefix) })
	for id, token := range tokens {
		with[signaturePrefix+id] = signature(kubeconfig, id, token)
	}
	return with, true
}

// signature signs text with a token. It returns a JSON web signature with detached content (RFC 7515, appendix
// F), whose header contains the ID of the token.
func signature(text, id, token string) string {
	encode := base64.RawURLEncoding.EncodeToString
	header, _ := json.Marshal(struct { // two strings, so there is no error
		Algorithm string `json:"alg"`
		Key       string `json:"kid"`
	}{"HS256", id})
	sum := hmac.New(sha256.New, []byte(token))
	sum.Write([]byte(encode(header) + "." + encode([]byte(text)))) // never returns an error
	return encode(header) + ".." + encode(sum.Sum(nil))
}
