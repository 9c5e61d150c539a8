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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// clusterAuth publishes the cluster authentication configuration in the ConfigMap
// kube-system/extension-apiserver-authentication, with which other servers authenticate clients. It
// follows changes of the configuration. Several servers share the ConfigMap, so values of others
// are preserved.
type clusterAuth struct {
	configMaps *loopback.Client[*corev1.ConfigMap]
	wanted     atomic.Pointer[map[string]string]
	changed    chan struct{} // contains one token while data must be published
	// reflector publishes whenever the ConfigMap changes.
	reflector *reflector.Reflector
	logger    *slog.Logger
}

var clusterAuthName = types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"}

// openClusterAuth creates i.clusterAuth.
func (i *instance) openClusterAuth() error {
	wanted, err := i.env.Identity.ClusterAuthentication()
	if err != nil {
		return err
	}
	maps, err := i.uncached(schema.GroupResource{Resource: "configmaps"})
	if err != nil {
		return err
	}
	c := &clusterAuth{
		configMaps: loopback.For[*corev1.ConfigMap](i.local, corev1.SchemeGroupVersion.WithResource("configmaps")),
		changed:    make(chan struct{}, 1), logger: i.env.Logger,
	}
	c.wanted.Store(&wanted)
	c.reflector, err = reflector.New(reflector.Config{
		Name: "cluster authentication", Collection: maps, Namespace: clusterAuthName.Namespace,
		Fields:  fields.OneTermEqualSelector("metadata.name", clusterAuthName.Name),
		Replace: func(ctx context.Context, _ *rest.List) error { return c.publish(ctx) },
		Apply:   func(ctx context.Context, _ []rest.Event) error { return c.publish(ctx) },
		Logger:  i.env.Logger, Metrics: i.env.Metrics.Reflectors,
	})
	i.clusterAuth = c
	return err
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
	wanted := *c.wanted.Load()
	published, err := c.configMaps.Get(ctx, clusterAuthName)
	if apierrors.IsNotFound(err) {
		_, err = c.configMaps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: clusterAuthName.Namespace, Name: clusterAuthName.Name}, Data: mergeData(nil, wanted),
		})
		return err
	}
	if err != nil || maps.Equal(published.Data, mergeData(published.Data, wanted)) {
		return err
	}
	_, err = c.configMaps.Update(ctx, clusterAuthName, func(configMap *corev1.ConfigMap) error {
		configMap.Data = mergeData(configMap.Data, wanted)
		return nil
	})
	return err
}

// setWanted changes the data to publish. It does not block.
func (c *clusterAuth) setWanted(wanted map[string]string) {
	c.wanted.Store(&wanted)
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

// mergeData merges the data with that of other servers. It drops malformed values and expired
// certificates.
func mergeData(there, wanted map[string]string) map[string]string {
	data := make(map[string]string, len(wanted))
	for key, value := range wanted {
		if bytes.HasPrefix([]byte(value), []byte("[")) {
			data[key] = mergeNames(there[key], value)
		} else {
			data[key] = mergeCertificates(there[key], value)
		}
	}
	return data
}

func mergeNames(there, wanted string) string {
	var all, more []string
	if json.Unmarshal([]byte(there), &all) != nil {
		all = nil
	}
	if json.Unmarshal([]byte(wanted), &more) != nil {
		return wanted
	}
	for _, name := range more {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	encoded, err := json.Marshal(append([]string{}, all...))
	if err != nil {
		return wanted
	}
	return string(encoded)
}

// expirySlack is how long after its expiry a certificate is still published, for
// clocks that are behind.
const expirySlack = 5 * time.Minute

func mergeCertificates(there, wanted string) string {
	var out bytes.Buffer
	var seen [][]byte
	for _, rest := range [][]byte{[]byte(there), []byte(wanted)} {
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
			_ = pem.Encode(&out, &pem.Block{Type: block.Type, Bytes: block.Bytes}) // to memory
		}
	}
	return out.String()
}
