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
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// clusterAuth publishes the cluster authentication configuration in the ConfigMap
// kube-system/extension-apiserver-authentication, which aggregated servers use to authenticate
// clients. Several servers share the ConfigMap, so that clusterAuth preserves the values of the other
// servers. It is safe for concurrent use.
type clusterAuth struct {
	configMaps *loopback.Client[*corev1.ConfigMap]
	data       atomic.Pointer[map[string]string] // to publish
	changed    chan struct{}                     // contains one token while changed data is not published
	// reflector publishes when the ConfigMap has changed.
	reflector *reflector.Reflector
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
		changed:    make(chan struct{}, 1), logger: s.env.Telemetry.Logger,
	}
	c.data.Store(&data)
	c.reflector, err = reflector.New(reflector.Config{
		Name: "cluster authentication", Collection: stored, Namespace: clusterAuthName.Namespace,
		Fields:  fields.OneTermEqualSelector("metadata.name", clusterAuthName.Name),
		Replace: func(ctx context.Context, _ *rest.List) error { return c.publish(ctx) },
		Apply:   func(ctx context.Context, _ []rest.Event) error { return c.publish(ctx) },
		Logger:  s.env.Telemetry.Logger, Metrics: s.reflectorMetrics(),
	})
	return c, err
}

// publish writes the ConfigMap if data is missing. A conflict with another writer is not an error:
// the reflector publishes again after that write.
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

// set changes the data to publish. It does not block, and run publishes the data.
func (c *clusterAuth) set(data map[string]string) {
	c.data.Store(&data)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// run publishes changes until ctx ends, with backoff on errors.
func (c *clusterAuth) run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { c.reflector.Run(ctx) })
	defer running.Wait()
	for {
		select {
		case <-c.changed:
		case <-ctx.Done():
			return nil
		}
		backoff := reflector.Backoff(reflector.MaxBackoff)
		for {
			err := c.publish(ctx)
			if err == nil {
				break
			}
			c.logger.Warn("the cluster authentication configuration cannot be published yet", "err", err)
			if reflector.Sleep(ctx, &backoff) != nil {
				return nil
			}
		}
	}
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
