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

// The signed data: a kubeconfig in a config map, with a signature for each token.
const (
	clusterInfo     = "cluster-info"
	kubeconfigKey   = "kubeconfig"
	signaturePrefix = "jws-kubeconfig-"
)

// Signer is the controller that signs kube-public/cluster-info, if it exists, for joining nodes,
// which only have a token.
type Signer struct {
	config Config
	maps   *loopback.Client[*corev1.ConfigMap]
}

// SignerRegistration returns the registration of the controller. As in kube-controller-manager, it
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

// NewSigner returns a controller that has not started.
func NewSigner(config Config) *Signer {
	return &Signer{config: config, maps: loopback.For[*corev1.ConfigMap](config.Access.AsController("bootstrap-signer"), corev1.SchemeGroupVersion.WithResource("configmaps"))}
}

// signing is the one key of a signer's queue.
type signing struct{}

// Start implements controllers.Controller.
func (s *Signer) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[signing]{Name: SignerName, Workers: 1, Do: s.sync, Logger: s.config.Logger, Metrics: s.config.Queues})
	return &signerSubscriber{queue}, queue.Close
}

// signerSubscriber has the config map looked at when it changes, and when a token does.
type signerSubscriber struct{ queue *work.Queue[signing] }

// Reset implements changes.Subscriber.
func (*signerSubscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*signerSubscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *signerSubscriber) Changed(c *changes.Change) {
	isInfo := c.Path == "configmaps" && c.Namespace == metav1.NamespacePublic && c.Name == clusterInfo && c.Value != nil
	if isInfo || isSecret(c) && strings.HasPrefix(c.Name, namePrefix) {
		s.queue.Add(signing{})
	}
}

// sync writes the signatures of all signing tokens into the config map, and removes others.
func (s *Signer) sync(ctx context.Context, _ signing) error {
	name := types.NamespacedName{Namespace: metav1.NamespacePublic, Name: clusterInfo}
	info, err := storage.FindAs[*corev1.ConfigMap](ctx, s.config.ConfigMaps, name)
	if err != nil || info == nil {
		return err
	}
	tokens, err := s.tokens(ctx)
	if err != nil {
		return err
	}
	if wanted, ok := signed(info.Data, tokens); !ok || maps.Equal(wanted, info.Data) {
		return nil
	}
	_, err = s.maps.Update(ctx, name, func(current *corev1.ConfigMap) error {
		if wanted, ok := signed(current.Data, tokens); ok {
			current.Data = wanted
		}
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("sign %s: %w", name, err)
	}
	return nil
}

// tokens returns the tokens that sign, by their ids.
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

// signed returns data with the signatures of tokens; false if there is no kubeconfig to sign.
func signed(data, tokens map[string]string) (map[string]string, bool) {
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

// signature is a JSON web signature (RFC 7515) of a text that is left out of it: its header
// names the token, which is the key.
func signature(text, id, token string) string {
	encode := base64.RawURLEncoding.EncodeToString
	header, _ := json.Marshal(struct { // of two strings: no error
		Algorithm string `json:"alg"`
		Key       string `json:"kid"`
	}{"HS256", id})
	sum := hmac.New(sha256.New, []byte(token))
	sum.Write([]byte(encode(header) + "." + encode([]byte(text)))) // never an error
	return encode(header) + ".." + encode(sum.Sum(nil))
}
