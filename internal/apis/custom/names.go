package custom

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/custom/definition"
)

// otherNames is the set of names that belong to the other definitions of a group.
type otherNames struct {
	reservations *btree.BTreeG[reservation]
	group        string
	definition   string // its own names are not in the set
}

// namesOfOthers returns the names that belong to definitions of a group, except one definition.
func (s *snapshot) namesOfOthers(group, definition string) otherNames {
	return otherNames{s.reservations, group, definition}
}

func (o otherNames) hasResource(name string) bool {
	return o.has(reservation{group: o.group, name: name})
}

func (o otherNames) hasKind(name string) bool {
	return o.has(reservation{group: o.group, isKind: true, name: name})
}

func (o otherNames) has(wanted reservation) (found bool) {
	o.reservations.Ascend(wanted, func(r reservation) bool {
		same := r.group == wanted.group && r.isKind == wanted.isKind && r.name == wanted.name
		found = same && r.owner != o.definition
		return same && !found
	})
	return found
}

// nameConflict contains the reason and message of the NamesAccepted condition if its status is False.
type nameConflict struct{ reason, message string }

// assign returns the names that are assigned to a definition. It assigns each requested name that is free. If a
// requested name is not free, it keeps the previous name. conflict is nil if all requested names are free;
// otherwise it describes the last conflict, as in kube-apiserver.
func (o otherNames) assign(requested, previous names) (assigned names, conflict *nameConflict) {
	assigned = previous
	areFree := func(isUsed func(string) bool, reason string, names ...string) bool {
		for _, name := range names {
			if isUsed(name) {
				conflict = &nameConflict{reason, fmt.Sprintf("%q is already in use", name)}
				return false
			}
		}
		return true
	}
	if areFree(o.hasResource, "PluralConflict", requested.plural) {
		assigned.plural = requested.plural
	}
	if areFree(o.hasResource, "SingularConflict", requested.singular) {
		assigned.singular = requested.singular
	}
	if areFree(o.hasResource, "ShortNamesConflict", requested.shortNames...) {
		assigned.shortNames = requested.shortNames
	}
	if areFree(o.hasKind, "KindConflict", requested.kind) {
		assigned.kind = requested.kind
	}
	if areFree(o.hasKind, "ListKindConflict", requested.listKind) {
		assigned.listKind = requested.listKind
	}
	assigned.categories = requested.categories
	return assigned, conflict
}

// updateConditions sets the conditions and accepted names of a definition from its names, group and schemas. It
// reports whether any of them changed.
func (c *controller) updateConditions(crd *apiextensionsv1.CustomResourceDefinition, s structure) bool {
	now := c.now()
	changed := setApprovalCondition(crd, now)
	changed = s.apply(crd, now) || changed
	previous := namesOf(&crd.Status.AcceptedNames)
	assigned, conflict := c.current.Load().namesOfOthers(crd.Spec.Group, crd.Name).assign(namesOf(&crd.Spec.Names), previous)
	if !assigned.equal(previous) {
		crd.Status.AcceptedNames, changed = assigned.api(), true
	}
	accepted := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found",
	}
	established := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, Reason: "InitialNamesAccepted",
		Message: "the initial names have been accepted",
	}
	if conflict != nil {
		accepted.Status, accepted.Reason, accepted.Message = apiextensionsv1.ConditionFalse, conflict.reason, conflict.message
		established.Status, established.Reason, established.Message = apiextensionsv1.ConditionFalse, "NotAccepted", "not all names are accepted"
	} else if definition.InvalidCABundle(crd) {
		established.Status, established.Reason, established.Message = apiextensionsv1.ConditionFalse, "InvalidCABundle", "The conversion webhook CABundle is invalid"
	}
	changed = definition.SetCondition(crd, accepted, now) || changed
	if !definition.IsTrue(crd, apiextensionsv1.Established) { // it stays true, as in kube-apiserver
		changed = definition.SetCondition(crd, established, now) || changed
	}
	return changed
}

// setApprovalCondition sets the KubernetesAPIApprovalPolicyConformant condition of a definition in a protected
// group, and removes it in other groups. It reports whether the conditions changed.
func setApprovalCondition(crd *apiextensionsv1.CustomResourceDefinition, now time.Time) bool {
	if !definition.IsProtected(crd.Spec.Group) {
		return definition.RemoveCondition(crd, apiextensionsv1.KubernetesAPIApprovalPolicyConformant)
	}
	condition := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse,
	}
	state, message := definition.ApprovalOf(crd.Annotations)
	condition.Message = message
	switch state {
	case definition.Approved:
		condition.Status, condition.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case definition.ApprovalBypassed:
		condition.Reason = "UnapprovedAnnotation"
	case definition.ApprovalInvalid:
		condition.Reason = "InvalidAnnotation"
	case definition.ApprovalMissing:
		condition.Reason = "MissingAnnotation"
	}
	return definition.SetCondition(crd, condition, now)
}

// isApprovalOutdated reports whether the approval condition must be written. It does not modify crd.
func isApprovalOutdated(crd *apiextensionsv1.CustomResourceDefinition) bool {
	trial := apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Annotations: crd.Annotations}}
	trial.Spec.Group, trial.Status.Conditions = crd.Spec.Group, slices.Clone(crd.Status.Conditions)
	return setApprovalCondition(&trial, time.Time{})
}

// statusManager is the field manager of status writes by the server.
const statusManager = "kube-apiserver"

// recordStatus updates the managed fields of a definition after the server has changed its conditions
// and accepted names. previous is the status before the change.
func recordStatus(crd *apiextensionsv1.CustomResourceDefinition, previous *apiextensionsv1.CustomResourceDefinitionStatus, at time.Time) {
	now := metav1.NewTime(at.Truncate(time.Second))
	entry := metav1.ManagedFieldsEntry{
		Manager: statusManager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: apiextensionsv1.SchemeGroupVersion.String(),
		Time: &now, FieldsType: "FieldsV1", Subresource: "status",
	}
	fields, others := splitManagedFields(crd.ManagedFields, func(m *metav1.ManagedFieldsEntry) bool {
		return m.Manager == entry.Manager && m.Operation == entry.Operation && m.Subresource == entry.Subresource
	}, previous, &crd.Status)
	entry.FieldsV1 = fields
	crd.ManagedFields = append(others, entry)
	// kube-apiserver sorts managed fields by operation (Apply first), then by time and manager.
	slices.SortStableFunc(crd.ManagedFields, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(strings.Compare(string(a.Operation), string(b.Operation)), writtenAt(a).Compare(writtenAt(b)), strings.Compare(a.Manager, b.Manager))
	})
}

func writtenAt(entry metav1.ManagedFieldsEntry) time.Time {
	if entry.Time == nil {
		return time.Time{}
	}
	return entry.Time.Time
}
