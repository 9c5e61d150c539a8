package controlplane

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// clusterAuth publishes the cluster authentication configuration in the ConfigMap
// kube-system/extension-apiserver-authentication, which aggregated servers use to authenticate clients.
// Several servers share the ConfigMap, so clusterAuth preserves the values of the other servers. It is safe
// for concurrent use.
type clusterAuth struct {
	configMaps *loopback.Client[*corev1.ConfigMap]
	data       atomic.Pointer[map[string]string] // the data to publish
	// reflector enqueues the ConfigMap when it has changed. start must be called before the reflector runs.
	reflector *reflector.Reflector
	queue     *work.Queue[types.NamespacedName] // contains clusterAuthName while data might not be published
	logger    *slog.Logger
}

var clusterAuthName = types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"}

func newClusterAuth(s *settings, access *loopback.Access, builtin *builtinResources) (*clusterAuth, error) {
	data, err := s.env.Identity.ClusterAuthentication()
	if err != nil {
		return nil, err
	}
	stored, err := builtin.uncached(corev1.Resource("configmaps"))
	if err != nil {
		return nil, err
	}
	c := &clusterAuth{
		configMaps: loopback.For[*corev1.ConfigMap](access, corev1.SchemeGroupVersion.WithResource("configmaps")),
		logger:     s.env.Telemetry.Logger,
	}
	c.data.Store(&data)
	c.reflector, err = reflector.New(reflector.Config{
		Name: "cluster authentication", Collection: stored, Namespace: clusterAuthName.Namespace,
		Fields:  fields.OneTermEqualSelector("metadata.name", clusterAuthName.Name),
		Replace: func(context.Context, *rest.List) error { c.queue.Add(clusterAuthName); return nil },
		Apply:   func(context.Context, []rest.Event) error { c.queue.Add(clusterAuthName); return nil },
		Logger:  s.env.Telemetry.Logger, Metrics: s.reflectorMetrics(),
	})
	return c, err
}

// start enables publication until ctx ends. The caller must then close the queue.
func (c *clusterAuth) start(ctx context.Context) {
	c.queue = work.New(ctx, work.Config[types.NamespacedName]{
		Name: "cluster authentication", Workers: 1, Logger: c.logger,
		Sync: func(ctx context.Context, _ types.NamespacedName) error { return c.publish(ctx) },
	})
}

// publish writes the ConfigMap if data is missing. A conflict with another writer is not an error, because the
// reflector publishes again after that write.
func (c *clusterAuth) publish(ctx context.Context) error {
	err := c.publishOnce(ctx)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("publish %s: %w", clusterAuthName, err)
	}
	return nil
}

func (c *clusterAuth) publishOnce(ctx context.Context) error {
	data := *c.data.Load()
	published, err := c.configMaps.Get(ctx, clusterAuthName)
	if apierrors.IsNotFound(err) {
		_, err = c.configMaps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: clusterAuthName.Namespace, Name: clusterAuthName.Name}, Data: mergeData(nil, data),
		})
		return err
	}
	if err != nil || maps.Equal(published.Data, mergeData(published.Data, data)) {
		return err
	}
	_, err = c.configMaps.Update(ctx, clusterAuthName, func(configMap *corev1.ConfigMap) error {
		configMap.Data = mergeData(configMap.Data, data)
		return nil
	})
	return err
}

// set changes the data to publish. It does not block.
func (c *clusterAuth) set(data map[string]string) {
	c.data.Store(&data)
	c.queue.Add(clusterAuthName)
}

// mergeData merges own data with the published data of other servers. It drops malformed values and
// expired certificates.
func mergeData(published, own map[string]string) map[string]string {
	data := make(map[string]string, len(own))
	for key, value := range own {
		if bytes.HasPrefix([]byte(value), []byte("[")) {
			data[key] = mergeNames(published[key], value)
		} else {
			data[key] = mergeCertificates(published[key], value)
		}
	}
	return data
}

func mergeNames(published, own string) string {
	var all, more []string
	if json.Unmarshal([]byte(published), &all) != nil {
		all = nil
	}
	if json.Unmarshal([]byte(own), &more) != nil {
		return own
	}
	for _, name := range more {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	encoded, err := json.Marshal(append([]string{}, all...))
	if err != nil {
		return own
	}
	return string(encoded)
}

// expirySlack is the time for which an expired certificate is still published, for servers whose
// clock is slow.
const expirySlack = 5 * time.Minute

func mergeCertificates(published, own string) string {
	var out bytes.Buffer
	var seen [][]byte
	for _, rest := range [][]byte{[]byte(published), []byte(own)} {
		for {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil || block.Type != "CERTIFICATE" || time.Now().After(cert.NotAfter.Add(expirySlack)) ||
				slices.ContainsFunc(seen, func(other []byte) bool { return bytes.Equal(other, block.Bytes) }) {
				continue
			}
			seen = append(seen, block.Bytes)
			_ = pem.Encode(&out, &pem.Block{Type: block.Type, Bytes: block.Bytes}) // writes to memory do not fail
		}
	}
	return out.String()
}
