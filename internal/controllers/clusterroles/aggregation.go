// Package clusterroles maintains the rules of aggregated ClusterRoles, like kube-controller-manager's
// clusterrole-aggregation-controller. A role with an aggregationRule has the rules of all roles that its
// selectors match.
package clusterroles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// Name is the name of the controller, its service account and its field manager.
const Name = "clusterrole-aggregation-controller"

// Config configures an Aggregator. All fields except QueueMetrics are required.
type Config struct {
	// Storage reads ClusterRoles. It should not have a watch cache, because the controller lists the roles only
	// after a relevant change.
	Storage storage.Interface
	// Access reads and writes objects. The controller replaces the user and the field manager of Access with
	// its own.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Aggregator implements clusterrole-aggregation-controller. Aggregate must not be called
// concurrently, nor while the controller is running.
type Aggregator struct {
	storage      storage.Interface
	client       *loopback.Client[*rbacv1.ClusterRole]
	logger       *slog.Logger
	queueMetrics *work.Metrics
	// selectors contains the selectors of all aggregation rules at the last pass. members contains the names of
	// the roles that they selected. members is nil before the first pass and after a failed read.
	selectors []labels.Selector
	members   map[string]bool
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		stored, err := d.OpenStorage(rbacv1.Resource("clusterroles"))
		if err != nil {
			return nil, err
		}
		return New(Config{Storage: stored, Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics}), nil
	}}
}

// New creates the controller without starting it.
func New(config Config) *Aggregator {
	access := config.Access.AsController(Name)
	return &Aggregator{
		storage: config.Storage, logger: config.Logger, queueMetrics: config.QueueMetrics,
		client: loopback.For[*rbacv1.ClusterRole](access.As(access.User, Name), rbacv1.SchemeGroupVersion.WithResource("clusterroles")),
	}
}

// Aggregate aggregates all roles once. The server calls it before it reports readiness. It blocks until the
// changed roles are stored. It returns the error of a failed read, or the errors of all failed writes.
func (a *Aggregator) Aggregate(ctx context.Context) error {
	list, err := a.storage.List(ctx, "", rest.ListOptions{})
	if err != nil {
		return err
	}
	return a.aggregate(ctx, list)
}

// Start implements controllers.Controller.
func (a *Aggregator) Start(ctx context.Context) (changes.Subscriber, func()) {
	a.members = nil // another server may have changed the roles
	s := &subscriber{}
	s.queue = work.New(ctx, work.Config[string]{
		Name: Name, Workers: 1, Logger: a.logger, Metrics: a.queueMetrics,
		Sync: func(ctx context.Context, name string) error { return a.sync(ctx, name, s.queue) },
	})
	return s, s.queue.Close
}

// allRoles is the key that aggregates all roles. No role can have this name.
const allRoles = ""

// subscriber enqueues changed roles by name.
type subscriber struct {
	queue   *work.Queue[string]
	loading bool // between Reset and Synced
}

// Reset implements changes.Subscriber.
func (s *subscriber) Reset() { s.loading = true }

// Synced implements changes.Subscriber.
func (s *subscriber) Synced() {
	s.loading = false
	s.queue.Add(allRoles)
}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	if c.Path == "clusterroles" && !s.loading {
		s.queue.Add(c.Name)
	}
}

// sync aggregates all roles if name is allRoles. If name is the name of a role, sync enqueues allRoles if the
// change to the role is relevant. Many changes at the same time therefore cause only one aggregation.
func (a *Aggregator) sync(ctx context.Context, name string, queue *work.Queue[string]) error {
	if name == allRoles {
		return a.Aggregate(ctx)
	}
	matters, err := a.isRelevant(ctx, name)
	if matters {
		queue.Add(allRoles)
	}
	return err
}

// isRelevant reports whether a change to a role may affect the rules of an aggregated role.
func (a *Aggregator) isRelevant(ctx context.Context, name string) (bool, error) {
	if a.members == nil || a.members[name] {
		return true, nil
	}
	record, err := a.storage.Get(ctx, types.NamespacedName{Name: name}, storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	role, err := decodeRole(record)
	return err != nil || role.AggregationRule != nil || a.isSelected(role), nil
}

// isSelected reports whether any aggregation rule selects the role.
func (a *Aggregator) isSelected(role *rbacv1.ClusterRole) bool {
	return slices.ContainsFunc(a.selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(role.Labels)) })
}

// aggregatedRole is a role with an aggregation rule.
type aggregatedRole struct {
	role      *rbacv1.ClusterRole
	selectors []labels.Selector
}

// aggregate updates the aggregated roles whose rules are outdated. An aggregated role may select another
// aggregated role, so the computation is repeated until no rules change.
func (a *Aggregator) aggregate(ctx context.Context, list *rest.List) error {
	roles, aggregated, err := a.decodeRoles(list)
	if err != nil {
		return err
	}
	rules := make(map[string][]rbacv1.PolicyRule, len(roles))
	for _, role := range roles {
		rules[role.Name] = role.Rules
	}
	for range aggregated { // the maximum length of a chain of aggregated roles
		changed := false
		for _, w := range aggregated {
			if now := w.union(roles, rules); !equality.Semantic.DeepEqual(now, rules[w.role.Name]) {
				rules[w.role.Name], changed = now, true
			}
		}
		if !changed {
			break
		}
	}
	var errs []error // if a role cannot be written, for example because of a webhook, the others still are
	for _, w := range aggregated {
		if name := w.role.Name; !equality.Semantic.DeepEqual(w.role.Rules, rules[name]) {
			if err := a.applyRules(ctx, w.role, rules[name]); err != nil {
				errs = append(errs, fmt.Errorf("aggregate the rules of ClusterRole %s: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// decodeRoles returns the roles in a list, sorted by name, and the aggregated roles among them. It ignores
// invalid selectors.
func (a *Aggregator) decodeRoles(list *rest.List) (roles []*rbacv1.ClusterRole, aggregated []*aggregatedRole, err error) {
	a.selectors, a.members = nil, nil // until all roles have been read, every change is relevant
	for record, err := range list.Items {
		if err != nil {
			return nil, nil, err
		}
		role, err := decodeRole(record)
		if err != nil {
			a.logger.Error("decode a ClusterRole; it is not aggregated", "err", err)
			continue
		}
		roles = append(roles, role)
		if role.AggregationRule == nil {
			continue
		}
		w := &aggregatedRole{role: role}
		for i := range role.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				a.logger.Error("parse a selector of an aggregation rule; it is ignored", "ClusterRole", role.Name, "err", err)
				continue
			}
			w.selectors = append(w.selectors, selector)
		}
		aggregated, a.selectors = append(aggregated, w), append(a.selectors, w.selectors...)
	}
	a.members = map[string]bool{}
	slices.SortFunc(roles, func(x, y *rbacv1.ClusterRole) int { return cmp.Compare(x.Name, y.Name) })
	for _, role := range roles {
		if a.isSelected(role) {
			a.members[role.Name] = true
		}
	}
	return roles, aggregated, nil
}

// union returns the rules of the selected roles, without duplicates.
func (w *aggregatedRole) union(roles []*rbacv1.ClusterRole, rules map[string][]rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	seen := map[string]bool{}
	for _, selector := range w.selectors {
		for _, role := range roles {
			if role.Name == w.role.Name || !selector.Matches(labels.Set(role.Labels)) {
				continue
			}
			for _, rule := range rules[role.Name] {
				if text := rule.String(); !seen[text] {
					seen[text] = true
					all = append(all, rule)
				}
			}
		}
	}
	return all
}

// applyRules writes the rules of a role with server-side apply. The UID is a precondition, so that nothing is
// written if the role was deleted or replaced.
func (a *Aggregator) applyRules(ctx context.Context, role *rbacv1.ClusterRole, rules []rbacv1.PolicyRule) error {
	configuration := map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "ClusterRole",
		"metadata": map[string]any{"name": role.Name, "uid": string(role.UID)},
	}
	list := make([]any, len(rules))
	for i := range rules {
		rule, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rules[i])
		if err != nil {
			return err
		}
		list[i] = rule
	}
	if len(list) > 0 { // without the field, apply removes the previous rules
		configuration["rules"] = list
	}
	_, err := a.client.Apply(ctx, &unstructured.Unstructured{Object: configuration}, true)
	if apierrors.IsConflict(err) {
		return nil // the change feed reports the new role
	}
	return err
}

func decodeRole(record *codec.Record) (*rbacv1.ClusterRole, error) {
	role, err := codec.SharedAs[*rbacv1.ClusterRole](record)
	if err != nil {
		return nil, fmt.Errorf("read ClusterRole %s: %w", record.Name().Name, err)
	}
	return role, nil
}
