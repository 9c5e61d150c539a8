// Package legacytokens invalidates and later deletes unused service account tokens in Secrets, like
// kube-controller-manager's legacy-serviceaccount-token-cleaner-controller. It processes only tokens that a
// controller generated, not tokens that users created.
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
	// Name is the name of the controller. account is the name of its service account.
	Name    = "legacy-serviceaccount-token-cleaner-controller"
	account = "legacy-service-account-token-cleaner"
	// interval is the time between two passes over all tokens.
	interval = 24 * time.Hour

	// trackingName is the name of the ConfigMap in kube-system that contains the date since which the use of
	// tokens is recorded.
	trackingName = "kube-apiserver-legacy-service-account-token-tracking"
	sinceKey     = "since"
	// The labels of token Secrets. Their values are dates. Authentication writes lastUsedLabel.
	lastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
)

// Config configures a Cleaner. All fields except QueueMetrics are required.
type Config struct {
	// Secrets, Accounts, Pods and ConfigMaps read stored objects without a watch cache.
	Secrets, Accounts, Pods, ConfigMaps storage.Interface
	// Period is the time after which an unused token is invalidated, and after which an invalid token is
	// deleted.
	Period time.Duration
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Cleaner implements legacy-serviceaccount-token-cleaner-controller. It starts no goroutine before
// Start.
type Cleaner struct {
	config  Config
	secrets *loopback.Client[*corev1.Secret]
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		config := Config{Period: d.Settings.LegacyTokenPeriod, Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics}
		for resource, stored := range map[string]*storage.Interface{
			"secrets": &config.Secrets, "serviceaccounts": &config.Accounts, "pods": &config.Pods, "configmaps": &config.ConfigMaps,
		} {
			var err error
			if *stored, err = d.OpenStorage(corev1.Resource(resource)); err != nil {
				return nil, err
			}
		}
		return New(config), nil
	}}
}

// New creates the controller without starting it.
func New(config Config) *Cleaner {
	return &Cleaner{config: config, secrets: loopback.For[*corev1.Secret](config.Access.AsController(account), corev1.SchemeGroupVersion.WithResource("secrets"))}
}

// queueKey is the only key of the queue.
type queueKey struct{}

// Start implements controllers.Controller.
func (c *Cleaner) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[queueKey]{Name: Name, Workers: 1, Sync: func(ctx context.Context, _ queueKey) error { return c.sync(ctx, simulation.Now(ctx).UTC()) }, Logger: c.config.Logger, Metrics: c.config.QueueMetrics})
	return &subscriber{queue}, queue.Close
}

// subscriber starts the first pass when the tracking ConfigMap exists.
type subscriber struct{ queue *work.Queue[queueKey] }

// Reset implements changes.Subscriber.
func (*subscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*subscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	if c.Path == "configmaps" && c.Namespace == metav1.NamespaceSystem && c.Name == trackingName && c.Value != nil {
		s.queue.Add(queueKey{})
	}
}

// sync processes all tokens and schedules the next pass. It does nothing until the use of tokens has been
// recorded for Period.
func (c *Cleaner) sync(ctx context.Context, now time.Time) error {
	since, err := c.trackedSince(ctx)
	if err != nil || since.IsZero() {
		return err
	}
	if err := work.RequeueUntil(ctx, since.Add(c.config.Period)); err != nil {
		return err
	}
	pass := &pass{Cleaner: c, now: now, cutoff: now.Add(-c.config.Period), podSecrets: map[string]map[string]bool{}}
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
			err = pass.process(ctx, secret)
		}
		if err != nil && ctx.Err() == nil {
			c.config.Logger.Warn("clean up a service account token", "secret", record.Name(), "err", err)
		}
	}
	return work.RequeueAt(now.Add(interval))
}

// trackedSince returns the first midnight since which the use of all tokens has been recorded, or the zero time
// if recording has not started.
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

// pass is one pass over all tokens.
type pass struct {
	*Cleaner
	// cutoff is now minus Period. Tokens that were created and last used before cutoff are unused. Invalid
	// tokens are deleted if they were invalidated before cutoff.
	now, cutoff time.Time
	podSecrets  map[string]map[string]bool // by namespace; the names of Secrets that pods use
}

// process invalidates an unused token, or deletes it if it was invalidated before cutoff.
func (p *pass) process(ctx context.Context, secret *corev1.Secret) error {
	if secret.Type != corev1.SecretTypeServiceAccountToken || secret.DeletionTimestamp != nil || !p.isUnused(secret) {
		return nil
	}
	if kept, err := p.mustKeep(ctx, secret); err != nil || kept {
		return err
	}
	name := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	marked := secret.Labels[invalidSinceLabel]
	if _, err := time.Parse(time.DateOnly, marked); err != nil {
		p.config.Logger.Info("invalidating an unused service account token", "secret", name)
		return p.markInvalid(ctx, name, secret.UID)
	}
	if marked >= p.cutoff.Format(time.DateOnly) {
		return nil
	}
	p.config.Logger.Info("deleting an unused service account token", "secret", name, "created", secret.CreationTimestamp, "lastUsed", secret.Labels[lastUsedLabel], "invalidSince", marked)
	return p.secrets.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}})
}

// isUnused reports whether a token was created and last used before cutoff. A token whose date of last use is
// invalid counts as used.
func (p *pass) isUnused(secret *corev1.Secret) bool {
	if !secret.CreationTimestamp.Time.Before(p.cutoff) {
		return false
	}
	used, ok := secret.Labels[lastUsedLabel]
	if !ok {
		return true
	}
	_, err := time.Parse(time.DateOnly, used)
	return err == nil && used < p.cutoff.Format(time.DateOnly)
}

// mustKeep reports whether a token was not generated by a controller, or is used by a pod.
func (p *pass) mustKeep(ctx context.Context, secret *corev1.Secret) (bool, error) {
	generated, err := p.isGenerated(ctx, secret)
	if err != nil || !generated {
		return true, err
	}
	used, ok := p.podSecrets[secret.Namespace]
	if !ok {
		if used, err = p.secretsOfPods(ctx, secret.Namespace); err != nil {
			return true, err
		}
		p.podSecrets[secret.Namespace] = used
	}
	return used[secret.Name], nil
}

// isGenerated reports whether the service account of a token lists the token's Secret in its secrets field. The
// service account lists only generated tokens.
func (p *pass) isGenerated(ctx context.Context, secret *corev1.Secret) (bool, error) {
	name := secret.Annotations[corev1.ServiceAccountNameKey]
	if name == "" {
		return false, nil
	}
	sa, err := storage.FindAs[*corev1.ServiceAccount](ctx, p.config.Accounts, types.NamespacedName{Namespace: secret.Namespace, Name: name})
	if err != nil || sa == nil {
		return false, err
	}
	uid := secret.Annotations[corev1.ServiceAccountUIDKey]
	return (uid == "" || uid == string(sa.UID)) &&
		slices.ContainsFunc(sa.Secrets, func(r corev1.ObjectReference) bool { return r.Name == secret.Name }), nil
}

// secretsOfPods returns the names of all Secrets that the pods of a namespace use.
func (p *pass) secretsOfPods(ctx context.Context, namespace string) (map[string]bool, error) {
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

// errReplaced is returned if another Secret with the same name has replaced the Secret.
var errReplaced = errors.New("another Secret has the same name")

// markInvalid sets the label that invalidates a token, unless the token has been used since it was read.
func (p *pass) markInvalid(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	_, err := p.secrets.Update(ctx, name, func(current *corev1.Secret) error {
		if current.UID != uid {
			return errReplaced
		}
		if p.isUnused(current) { // it has not been used since it was read
			metav1.SetMetaDataLabel(&current.ObjectMeta, invalidSinceLabel, p.now.Format(time.DateOnly))
		}
		return nil
	})
	return err
}
