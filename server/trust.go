package server

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
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

	"mainstay.dev/mainstay/apis/builtin"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/endpoints/apply"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/route"
	"mainstay.dev/mainstay/storage"
	"mainstay.dev/mainstay/storage/follow"
)

// trust publishes for other servers whom this one believes: a ConfigMap, which
// is put right whenever somebody changes it. Several servers share it, so what
// is there already stays.
type trust struct {
	resource *rest.Resource // configmaps
	managers apply.Managers
	wanted   atomic.Pointer[map[string]string]
	renewed  chan struct{} // holds one token while wanted is to be published
	// follower puts it right whenever the ConfigMap is not as it was.
	follower *follow.Follower
}

var trustName = types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"}

// openTrust prepares what is published for other servers.
func (s *Server) openTrust(env *builtin.Env, static *route.Static, managers apply.Managers) error {
	wanted, err := s.trustData()
	if err != nil {
		return err
	}
	maps := env.Store(schema.GroupResource{Resource: "configmaps"})
	direct, err := storage.New(storage.Config{
		Backend: s.backend, Prefix: s.config.EtcdPrefix, ResourcePrefix: "configmaps", Kind: maps.Kind, Namespaced: true,
		GroupResource: maps.Resource, Metrics: s.storageMetrics,
	})
	if err != nil {
		return err
	}
	t := &trust{resource: static.Find(corev1.SchemeGroupVersion, "configmaps", ""), managers: managers, renewed: make(chan struct{}, 1)}
	t.wanted.Store(&wanted)
	t.follower, err = follow.New(follow.Config{
		Name: "published trust", Collection: direct, Namespace: trustName.Namespace,
		Fields:  fields.OneTermEqualSelector("metadata.name", trustName.Name),
		Replace: func(ctx context.Context, _ *rest.List) error { return t.publish(ctx) },
		Apply:   func(ctx context.Context, _ []rest.Event) error { return t.publish(ctx) },
		Logger:  s.logger, Metrics: s.following,
	})
	s.trust = t
	return err
}

// trustData is what the ConfigMap is to hold of this server.
func (s *Server) trustData() (map[string]string, error) {
	proxies := s.frontProxy.now.Load()
	headers := proxies.headers
	data := map[string]string{
		"client-ca-file":               string(s.users.now.Load().bundle),
		"requestheader-client-ca-file": string(proxies.bundle),
	}
	for key, names := range map[string][]string{
		"requestheader-allowed-names": headers.AllowedNames, "requestheader-username-headers": headers.UserHeaders,
		"requestheader-uid-headers": headers.UIDHeaders, "requestheader-group-headers": headers.GroupHeaders,
		"requestheader-extra-headers-prefix": headers.ExtraPrefixes,
	} {
		encoded, err := json.Marshal(append([]string{}, names...))
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", key, err)
		}
		data[key] = string(encoded)
	}
	return data, nil
}

// publish writes what is wanted, where it is not there. That somebody else
// writes at the same time is no error: following it tells what they wrote.
func (t *trust) publish(ctx context.Context) error {
	err := t.publishOnce(ctx)
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("publish %s: %w", trustName, err)
	}
	return nil
}

func (t *trust) publishOnce(ctx context.Context) error {
	wanted := *t.wanted.Load()
	getter, gets := t.resource.Storage.(rest.Getter)
	creater, creates := t.resource.Storage.(rest.Creater)
	updater, updates := t.resource.Storage.(rest.Updater)
	if !gets || !creates || !updates {
		return errors.New("configmaps cannot be written")
	}
	record, err := getter.Get(ctx, trustName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		obj, err := account(t.managers, t.resource, &corev1.ConfigMap{}, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: trustName.Namespace, Name: trustName.Name}, Data: merged(nil, wanted),
		})
		if err != nil {
			return err
		}
		_, err = creater.Create(ctx, obj, nil, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	published, err := sharedAs[*corev1.ConfigMap](record)
	if err != nil || maps.Equal(published.Data, merged(published.Data, wanted)) {
		return err
	}
	_, _, err = updater.Update(ctx, trustName, func(_ context.Context, current codec.Object) (codec.Object, error) {
		updated := current.DeepCopyObject().(*corev1.ConfigMap)
		updated.Data = merged(updated.Data, wanted)
		return account(t.managers, t.resource, current.DeepCopyObject().(codec.Object), updated)
	}, rest.UpdateOptions{})
	return err
}

// want changes what is published.
func (t *trust) want(wanted map[string]string) {
	t.wanted.Store(&wanted)
	select {
	case t.renewed <- struct{}{}:
	default:
	}
}

// run keeps what is wanted published, until ctx ends.
func (t *trust) run(ctx context.Context, logger *slog.Logger) {
	var follower sync.WaitGroup
	follower.Go(func() { t.follower.Run(ctx) })
	defer follower.Wait()
	for {
		select {
		case <-t.renewed:
		case <-ctx.Done():
			return
		}
		var pauses follow.Pauses
		for {
			err := t.publish(ctx)
			if err == nil {
				break
			}
			logger.Warn("whom other servers are told to trust cannot be published yet", "err", err)
			if pauses.Wait(ctx) != nil {
				return
			}
		}
	}
}

// merged adds what is wanted to what is there. What is wrong there, or has
// expired, goes.
func merged(there, wanted map[string]string) map[string]string {
	data := make(map[string]string, len(wanted))
	for key, value := range wanted {
		if bytes.HasPrefix([]byte(value), []byte("[")) {
			data[key] = mergedNames(there[key], value)
		} else {
			data[key] = mergedCertificates(there[key], value)
		}
	}
	return data
}

func mergedNames(there, wanted string) string {
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

// expirySlack is how long after its end a certificate is still published: not
// all clocks are right.
const expirySlack = 5 * time.Minute

func mergedCertificates(there, wanted string) string {
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
