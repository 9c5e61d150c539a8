// Package clusterroles maintains the rules of aggregated ClusterRoles: a role with an
// aggregationRule has the rules of all selected roles. It implements kube-controller-manager's
// clusterrole-aggregation controller.
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

// Name is that of the controller, of its service account and field manager.
const Name = "clusterrole-aggregation-controller"

// Config configures an Aggregation. All fields except Queues are required.
type Config struct {
	// Stored are the stored ClusterRoles. They are listed with each change that
	// matters, so a watch cache of them would be a second copy.
	Stored storage.Interface
	// Access is to the control plane; its user and manager are replaced by the
	// controller's.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; may be nil.
	Queues *work.Metrics
}

// Aggregation is the controller. Only one goroutine at a time may call Aggregate, and none between
// Start and the end of its work.
type Aggregation struct {
	stored storage.Interface
	client *loopback.Client[*rbacv1.ClusterRole]
	logger *slog.Logger
	queues *work.Metrics
	// selectors are the selectors of all aggregation rules, and members the selected roles, at the
	// last complete pass; nil before it.
	selectors []labels.Selector
	members   map[string]bool
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		stored, err := d.Stored(rbacv1.Resource("clusterroles"))
		if err != nil {
			return nil, err
		}
		return New(Config{Stored: stored, Access: d.Access, Logger: d.Logger, Queues: d.Queues}), nil
	}}
}

// New returns a controller that has not started.
func New(config Config) *Aggregation {
	access := config.Access.AsController(Name)
	return &Aggregation{
		stored: config.Stored, logger: config.Logger, queues: config.Queues,
		client: loopback.For[*rbacv1.ClusterRole](access.As(access.User, Name), rbacv1.SchemeGroupVersion.WithResource("clusterroles")),
	}
}

// Aggregate aggregates all roles once, so that a server that is ready has them.
func (a *Aggregation) Aggregate(ctx context.Context) error {
	list, err := a.stored.List(ctx, "", rest.ListOptions{})
	if err != nil {
		return err
	}
	return a.aggregate(ctx, list)
}

// Start implements controllers.Controller.
func (a *Aggregation) Start(ctx context.Context) (changes.Subscriber, func()) {
	a.members = nil // another server may have changed them
	queue := work.New(ctx, work.Config[string]{Name: Name, Workers: 1, Do: a.sync, Logger: a.logger, Metrics: a.queues})
	return &subscriber{queue}, queue.Close
}

// subscriber queues the roles that change.
type subscriber struct{ queue *work.Queue[string] }

// Reset implements changes.Subscriber.
func (*subscriber) Reset() {}

// Synced implements changes.Subscriber.
func (*subscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	if c.Path == "clusterroles" {
		s.queue.Add(c.Name)
	}
}

// sync looks at all roles again where the change of one may matter.
func (a *Aggregation) sync(ctx context.Context, name string) error {
	matters, err := a.matters(ctx, name)
	if err != nil || !matters {
		return err
	}
	return a.Aggregate(ctx)
}

func (a *Aggregation) matters(ctx context.Context, name string) (bool, error) {
	if a.members == nil || a.members[name] {
		return true, nil
	}
	record, err := a.stored.Get(ctx, types.NamespacedName{Name: name}, storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	role, err := roleOf(record)
	return err != nil || role.AggregationRule != nil || a.chosen(role), nil
}

func (a *Aggregation) chosen(role *rbacv1.ClusterRole) bool {
	return slices.ContainsFunc(a.selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(role.Labels)) })
}

// aggregated is a role with an aggregation rule.
type aggregated struct {
	role      *rbacv1.ClusterRole
	selectors []labels.Selector
}

// aggregate writes the aggregated roles of a list whose rules are outdated. An aggregated role may
// select another one, so it repeats until no role changes.
func (a *Aggregation) aggregate(ctx context.Context, list *rest.List) error {
	roles, wanted, err := a.read(list)
	if err != nil {
		return err
	}
	rules := make(map[string][]rbacv1.PolicyRule, len(roles))
	for _, role := range roles {
		rules[role.Name] = role.Rules
	}
	for range wanted { // the longest chain
		changed := false
		for _, w := range wanted {
			if now := w.union(roles, rules); !equality.Semantic.DeepEqual(now, rules[w.role.Name]) {
				rules[w.role.Name], changed = now, true
			}
		}
		if !changed {
			break
		}
	}
	for _, w := range wanted {
		if name := w.role.Name; !equality.Semantic.DeepEqual(w.role.Rules, rules[name]) {
			if err := a.write(ctx, w.role, rules[name]); err != nil {
				return fmt.Errorf("aggregate the rules of ClusterRole %s: %w", name, err)
			}
		}
	}
	return nil
}

// read returns the roles of a list, and the aggregated ones, sorted by name. An invalid selector
// selects no role.
func (a *Aggregation) read(list *rest.List) (roles []*rbacv1.ClusterRole, wanted []*aggregated, err error) {
	a.selectors, a.members = nil, map[string]bool{}
	for record, err := range list.Items {
		if err != nil {
			return nil, nil, err
		}
		role, err := roleOf(record)
		if err != nil {
			a.logger.Error("a role cannot be read, and is not aggregated", "err", err)
			continue
		}
		roles = append(roles, role)
		if role.AggregationRule == nil {
			continue
		}
		w := &aggregated{role: role}
		for i := range role.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				a.logger.Error("a selector of an aggregation rule cannot be read", "ClusterRole", role.Name, "err", err)
				continue
			}
			w.selectors = append(w.selectors, selector)
		}
		wanted, a.selectors = append(wanted, w), append(a.selectors, w.selectors...)
	}
	slices.SortFunc(roles, func(x, y *rbacv1.ClusterRole) int { return cmp.Compare(x.Name, y.Name) })
	for _, role := range roles {
		if a.chosen(role) {
			a.members[role.Name] = true
		}
	}
	return roles, wanted, nil
}

// union returns the rules of the roles that a role chooses, each once.
func (w *aggregated) union(roles []*rbacv1.ClusterRole, rules map[string][]rbacv1.PolicyRule) []rbacv1.PolicyRule {
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

// write applies the rules. A deleted or replaced role is not written, because the UID is a
// precondition.
func (a *Aggregation) write(ctx context.Context, role *rbacv1.ClusterRole, rules []rbacv1.PolicyRule) error {
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
	if len(list) > 0 { // otherwise the previous rules are removed, without an owner
		configuration["rules"] = list
	}
	_, err := a.client.Apply(ctx, &unstructured.Unstructured{Object: configuration}, true)
	if apierrors.IsConflict(err) {
		return nil // the change feed reports the new role
	}
	return err
}

func roleOf(record *codec.Record) (*rbacv1.ClusterRole, error) {
	role, err := codec.SharedAs[*rbacv1.ClusterRole](record)
	if err != nil {
		return nil, fmt.Errorf("read ClusterRole %s: %w", record.Name().Name, err)
	}
	return role, nil
}
