// Package legacytokens deletes service account tokens in secrets that were generated for
// their account and have not been used for a long time, as kube-controller-manager's
// legacy-serviceaccount-token-cleaner-controller does: at first it marks them as invalid,
// and as much later deletes them.
package legacytokens

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
)

const (
	// Name is that of the controller, and account its service account.
	Name    = "legacy-serviceaccount-token-cleaner-controller"
	account = "legacy-service-account-token-cleaner"
	// interval is how often all tokens are looked at.
	interval = 24 * time.Hour

	// trackingName is the config map in kube-system with the date since when token uses are
	// recorded.
	trackingName = "kube-apiserver-legacy-service-account-token-tracking"
	sinceKey     = "since"
	// Labels of secrets, with dates: the first is written where tokens are authenticated.
	lastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
)

// Config configures a Cleaner. All fields except Queues are required.
type Config struct {
	// Secrets, Accounts, Pods and ConfigMaps are the stored ones, past the watch cache.
	Secrets, Accounts, Pods, ConfigMaps storage.Interface
	// Period is for how long a token must not have been used.
	Period time.Duration
	// Access is to the control plane; its user is replaced by the controller's.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; nil disables them.
	Queues *work.Metrics
}

// Cleaner is the controller.
type Cleaner struct {
	config  Config
	secrets *loopback.Client[*corev1.Secret]
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		config := Config{Period: d.Settings.LegacyTokenPeriod, Access: d.Access, Logger: d.Logger, Queues: d.Queues}
		for resource, stored := range map[string]*storage.Interface{
			"secrets": &config.Secrets, "serviceaccounts": &config.Accounts, "pods": &config.Pods, "configmaps": &config.ConfigMaps,
		} {
			var err error
			if *stored, err = d.Stored(corev1.Resource(resource)); err != nil {
				return nil, err
			}
		}
		return New(config), nil
	}}
}

// New returns a controller that is not started.
func New(config Config) *Cleaner {
	return &Cleaner{config: config, secrets: loopback.For[*corev1.Secret](config.Access.AsController(account), corev1.SchemeGroupVersion.WithResource("secrets"))}
}

// all is the one key of the queue.
type all struct{}

// Start implements controllers.Controller.
func (c *Cleaner) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[all]{Name: Name, Workers: 1, Do: func(ctx context.Context, _ all) error { return c.sync(ctx, simulation.Now(ctx).UTC()) }, Logger: c.config.Logger, Metrics: c.config.Queues})
	return &subscriber{queue}, queue.Close
}

// subscriber begins when there is the config map, which every cluster has.
type subscriber struct{ queue *work.Queue[all] }

// Reset implements changes.Subscriber.
func (*subscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*subscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	if c.Path == "configmaps" && c.Namespace == metav1.NamespaceSystem && c.Name == trackingName && c.Value != nil {
		s.queue.Add(all{})
	}
}

// sync processes all tokens, and again after one day. It processes none until uses have been
// recorded for long enough.
func (c *Cleaner) sync(ctx context.Context, now time.Time) error {
	since, err := c.trackedSince(ctx)
	if err != nil || since.IsZero() {
		return err
	}
	if err := work.Due(ctx, since.Add(c.config.Period)); err != nil {
		return err
	}
	pass := &pass{Cleaner: c, now: now, before: now.Add(-c.config.Period), used: map[string]map[string]bool{}}
	list, err := c.config.Secrets.List(ctx, "", rest.ListOptions{})
	if err != nil {
		return err
	}
	for record, err := range list.Items {
		if err != nil {
			return err
		}
		secret, err := codec.SharedAs[*corev1.Secret](record)
		if err == nil {
			err = pass.look(ctx, secret)
		}
		if err != nil && ctx.Err() == nil {
			c.config.Logger.Warn("a service account token is not cleaned up", "secret", record.Name(), "err", err)
		}
	}
	return work.At(now.Add(interval))
}

// trackedSince returns from which midnight on all uses of tokens have been noted; zero: that
// is not known.
func (c *Cleaner) trackedSince(ctx context.Context) (time.Time, error) {
	tracking, err := storage.FindAs[*corev1.ConfigMap](ctx, c.config.ConfigMaps, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: trackingName})
	if err != nil || tracking == nil {
		return time.Time{}, err
	}
	day, err := time.Parse(time.DateOnly, tracking.Data[sinceKey])
	if err != nil {
		return time.Time{}, fmt.Errorf("read %s of the ConfigMap %s: %w", sinceKey, trackingName, err)
	}
	return day.AddDate(0, 0, 1), nil
}

// pass looks at all tokens once.
type pass struct {
	*Cleaner
	// Tokens created, last used or marked before this time are not needed.
	now, before time.Time
	used        map[string]map[string]bool // secrets of pods, by namespaces that were looked at
}

// look marks a token that is not used, or deletes one that has been marked for long.
func (p *pass) look(ctx context.Context, secret *corev1.Secret) error {
	if secret.Type != corev1.SecretTypeServiceAccountToken || secret.DeletionTimestamp != nil || !p.isOld(secret) {
		return nil
	}
	if kept, err := p.isKept(ctx, secret); err != nil || kept {
		return err
	}
	name := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	marked := secret.Labels[invalidSinceLabel]
	if _, err := time.Parse(time.DateOnly, marked); err != nil {
		p.config.Logger.Info("a service account token that is not used is invalid from now on", "secret", name)
		return p.mark(ctx, name, secret.UID)
	}
	if marked >= p.before.Format(time.DateOnly) {
		return nil
	}
	p.config.Logger.Info("a service account token that is not used is deleted", "secret", name, "created", secret.CreationTimestamp, "lastUsed", secret.Labels[lastUsedLabel], "invalidSince", marked)
	return p.secrets.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}})
}

// isOld reports whether a token was created and last used before this time. A token with an invalid
// date of last use may be in use.
func (p *pass) isOld(secret *corev1.Secret) bool {
	if !secret.CreationTimestamp.Time.Before(p.before) {
		return false
	}
	used, ok := secret.Labels[lastUsedLabel]
	if !ok {
		return true
	}
	_, err := time.Parse(time.DateOnly, used)
	return err == nil && used < p.before.Format(time.DateOnly)
}

// isKept reports whether a token was made by hand, as far as its account shows, or is
// mounted into a pod.
func (p *pass) isKept(ctx context.Context, secret *corev1.Secret) (bool, error) {
	generated, err := p.isGenerated(ctx, secret)
	if err != nil || !generated {
		return true, err
	}
	used, ok := p.used[secret.Namespace]
	if !ok {
		if used, err = p.usedBy(ctx, secret.Namespace); err != nil {
			return true, err
		}
		p.used[secret.Namespace] = used
	}
	return used[secret.Name], nil
}

// isGenerated reports whether the account of a token lists it among its secrets.
func (p *pass) isGenerated(ctx context.Context, secret *corev1.Secret) (bool, error) {
	name := secret.Annotations[corev1.ServiceAccountNameKey]
	if name == "" {
		return false, nil
	}
	of, err := storage.FindAs[*corev1.ServiceAccount](ctx, p.config.Accounts, types.NamespacedName{Namespace: secret.Namespace, Name: name})
	if err != nil || of == nil {
		return false, err
	}
	uid := secret.Annotations[corev1.ServiceAccountUIDKey]
	return (uid == "" || uid == string(of.UID)) &&
		slices.ContainsFunc(of.Secrets, func(r corev1.ObjectReference) bool { return r.Name == secret.Name }), nil
}

// usedBy returns the names of all secrets that pods of a namespace use.
func (p *pass) usedBy(ctx context.Context, namespace string) (map[string]bool, error) {
	list, err := p.config.Pods.List(ctx, namespace, rest.ListOptions{})
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for record, err := range list.Items {
		if err != nil {
			return nil, err
		}
		pod, err := codec.SharedAs[*corev1.Pod](record)
		if err != nil {
			return nil, err
		}
		podspec.EachSecret(&pod.Spec, func(name string) { used[name] = true })
	}
	return used, nil
}

// errOther: there is another secret of the name by now.
var errOther = errors.New("it is another secret")

// mark makes a token invalid.
func (p *pass) mark(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	_, err := p.secrets.Update(ctx, name, func(current *corev1.Secret) error {
		if current.UID != uid {
			return errOther
		}
		if p.isOld(current) { // not used since it was read
			metav1.SetMetaDataLabel(&current.ObjectMeta, invalidSinceLabel, p.now.Format(time.DateOnly))
		}
		return nil
	})
	return err
}
