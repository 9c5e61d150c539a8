package bootstrap

import (
	"strconv"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
)

// flowControlManager is the field manager of the flow control objects.
const flowControlManager = "api-priority-and-fairness-config-producer-v1"

// flowControlObjects returns the priority levels and flow schemas. The server always reverts changes to
// mandatory objects. It updates the other objects only until an administrator changes them.
func flowControlObjects() []set {
	v1 := flowcontrolv1.SchemeGroupVersion
	return []set{
		{resource: v1.WithResource("prioritylevelconfigurations"), manager: flowControlManager, objects: objects(priorityLevels()), revise: revisePriorityLevel, retired: hasAutoUpdate},
		{resource: v1.WithResource("flowschemas"), manager: flowControlManager, objects: objects(flowSchemas()), revise: reviseFlowSchema, retired: hasAutoUpdate},
	}
}

func priorityLevels() []*flowcontrolv1.PriorityLevelConfiguration {
	return []*flowcontrolv1.PriorityLevelConfiguration{
		exemptLevel(flowcontrolv1.PriorityLevelConfigurationNameExempt),
		catchAllLevel(),
		limitedLevel("system", 30, 33, queues(64, 6)),
		limitedLevel("node-high", 40, 25, queues(64, 6)),
		limitedLevel("leader-election", 10, 0, queues(16, 4)),
		limitedLevel("workload-high", 40, 50, queues(128, 6)),
		limitedLevel("workload-low", 100, 90, queues(128, 6)),
		limitedLevel("global-default", 20, 50, queues(128, 6)),
	}
}

func flowSchemas() []*flowcontrolv1.FlowSchema {
	const byUser, byNamespace = flowcontrolv1.FlowDistinguisherMethodByUserType, flowcontrolv1.FlowDistinguisherMethodByNamespaceType
	everyone := everyUser()
	nodes := []flowcontrolv1.Subject{flowGroup("system:nodes")}
	systemAccounts := flowcontrolv1.Subject{
		Kind:           flowcontrolv1.SubjectKindServiceAccount,
		ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: metav1.NamespaceSystem, Name: flowcontrolv1.NameAll},
	}
	manager, scheduler := flowUser("system:kube-controller-manager"), flowUser("system:kube-scheduler")
	return []*flowcontrolv1.FlowSchema{
		exemptSchema(),
		flowSchema("probes", "exempt", 2, "", flowcontrolv1.PolicyRulesWithSubjects{Subjects: everyone,
			NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/readyz", "/livez"}}}}),
		flowSchema("system-leader-election", "leader-election", 100, byUser, flowcontrolv1.PolicyRulesWithSubjects{
			Subjects:      []flowcontrolv1.Subject{manager, scheduler, systemAccounts},
			ResourceRules: []flowcontrolv1.ResourcePolicyRule{flowRule("get create update", "coordination.k8s.io", "leases", false)}}),
		flowSchema("system-node-high", "node-high", 400, byUser, flowcontrolv1.PolicyRulesWithSubjects{Subjects: nodes,
			ResourceRules: []flowcontrolv1.ResourcePolicyRule{flowRule("*", "", "nodes nodes/status", true), flowRule("*", "coordination.k8s.io", "leases", false)}}),
		flowSchema("system-nodes", "system", 500, byUser, everything(nodes...)),
		flowSchema("kube-controller-manager", "workload-high", 800, byNamespace, everything(manager)),
		flowSchema("kube-scheduler", "workload-high", 800, byNamespace, everything(scheduler)),
		flowSchema("kube-system-service-accounts", "workload-high", 900, byNamespace, everything(systemAccounts)),
		flowSchema("service-accounts", "workload-low", 9000, byUser, everything(flowGroup("system:serviceaccounts"))),
		flowSchema("global-default", "global-default", 9900, byUser, everything(everyone...)),
		catchAllSchema(),
	}
}

// MandatoryFlowSchemas returns the flow schemas that administrators cannot change. The caller owns the result.
func MandatoryFlowSchemas() []*flowcontrolv1.FlowSchema {
	return []*flowcontrolv1.FlowSchema{exemptSchema(), catchAllSchema()}
}

// MandatoryPriorityLevels returns the mandatory priority levels. Administrators can change only spec.exempt of
// the exempt level. The caller owns the result.
func MandatoryPriorityLevels() []*flowcontrolv1.PriorityLevelConfiguration {
	return []*flowcontrolv1.PriorityLevelConfiguration{exemptLevel(flowcontrolv1.PriorityLevelConfigurationNameExempt), catchAllLevel()}
}

// MandatoryFlowSchema returns the mandatory flow schema with the given name, or nil if there is no such schema.
func MandatoryFlowSchema(name string) *flowcontrolv1.FlowSchema {
	switch name {
	case flowcontrolv1.FlowSchemaNameExempt:
		return exemptSchema()
	case flowcontrolv1.FlowSchemaNameCatchAll:
		return catchAllSchema()
	}
	return nil
}

// MandatoryPriorityLevel returns the mandatory priority level with the given name, or nil if there is no such
// level.
func MandatoryPriorityLevel(name string) *flowcontrolv1.PriorityLevelConfiguration {
	switch name {
	case flowcontrolv1.PriorityLevelConfigurationNameExempt:
		return exemptLevel(name)
	case flowcontrolv1.PriorityLevelConfigurationNameCatchAll:
		return catchAllLevel()
	}
	return nil
}

func exemptSchema() *flowcontrolv1.FlowSchema {
	return flowSchema(flowcontrolv1.FlowSchemaNameExempt, flowcontrolv1.PriorityLevelConfigurationNameExempt, 1, "",
		everything(flowGroup("system:masters")))
}

func catchAllSchema() *flowcontrolv1.FlowSchema {
	return flowSchema(flowcontrolv1.FlowSchemaNameCatchAll, flowcontrolv1.PriorityLevelConfigurationNameCatchAll,
		flowcontrolv1.FlowSchemaMaxMatchingPrecedence, flowcontrolv1.FlowDistinguisherMethodByUserType, everything(everyUser()...))
}

func catchAllLevel() *flowcontrolv1.PriorityLevelConfiguration {
	return limitedLevel(flowcontrolv1.PriorityLevelConfigurationNameCatchAll, 5, 0, nil)
}

func everyUser() []flowcontrolv1.Subject {
	return []flowcontrolv1.Subject{flowGroup("system:unauthenticated"), flowGroup("system:authenticated")}
}

func flowMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}}
}

func exemptLevel(name string) *flowcontrolv1.PriorityLevelConfiguration {
	return &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: flowMeta(name), Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type:   flowcontrolv1.PriorityLevelEnablementExempt,
		Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: new(int32), LendablePercent: new(int32)},
	}}
}

// limitedLevel returns a priority level with a concurrency limit. Requests above the limit are queued or, if
// queuing is nil, rejected.
func limitedLevel(name string, shares, lendable int32, queuing *flowcontrolv1.QueuingConfiguration) *flowcontrolv1.PriorityLevelConfiguration {
	response := flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}
	if queuing != nil {
		response = flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: queuing}
	}
	return &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: flowMeta(name), Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementLimited,
		Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: &shares, LendablePercent: &lendable, LimitResponse: response,
		},
	}}
}

func queues(number, hand int32) *flowcontrolv1.QueuingConfiguration {
	return &flowcontrolv1.QueuingConfiguration{Queues: number, HandSize: hand, QueueLengthLimit: 50}
}

func flowSchema(name, level string, precedence int32, method flowcontrolv1.FlowDistinguisherMethodType, rule flowcontrolv1.PolicyRulesWithSubjects) *flowcontrolv1.FlowSchema {
	schema := &flowcontrolv1.FlowSchema{ObjectMeta: flowMeta(name), Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level},
		MatchingPrecedence:         precedence, Rules: []flowcontrolv1.PolicyRulesWithSubjects{rule},
	}}
	if method != "" {
		schema.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: method}
	}
	return schema
}

// flowRule returns a rule for resources in all namespaces and, if cluster is set, for
// cluster-scoped resources.
func flowRule(verbs, group, resources string, cluster bool) flowcontrolv1.ResourcePolicyRule {
	return flowcontrolv1.ResourcePolicyRule{
		Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: strings.Fields(resources),
		ClusterScope: cluster, Namespaces: []string{flowcontrolv1.NamespaceEvery},
	}
}

func everything(subjects ...flowcontrolv1.Subject) flowcontrolv1.PolicyRulesWithSubjects {
	return flowcontrolv1.PolicyRulesWithSubjects{
		Subjects:         subjects,
		ResourceRules:    []flowcontrolv1.ResourcePolicyRule{flowRule("*", "*", "*", true)},
		NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}},
	}
}

func flowGroup(name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: name}}
}

func flowUser(name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}}
}

// isMaintained reports whether the server must revert changes to an object. It returns true for mandatory
// objects. For other objects, it returns the value of the auto-update annotation. If this annotation is missing
// or invalid, it reports whether the spec was never changed.
func isMaintained(existing codec.Object) bool {
	switch existing.GetName() {
	case flowcontrolv1.FlowSchemaNameExempt, flowcontrolv1.FlowSchemaNameCatchAll: // the mandatory priority levels have the same names
		return true
	}
	enabled, err := strconv.ParseBool(existing.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	if err != nil {
		return existing.GetGeneration() == 1
	}
	return enabled
}

// hasAutoUpdate reports whether the auto-update annotation of an object is true.
func hasAutoUpdate(existing codec.Object) bool {
	enabled, err := strconv.ParseBool(existing.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	return err == nil && enabled
}

func revisePriorityLevel(existing, wanted codec.Object) bool {
	is, should := existing.(*flowcontrolv1.PriorityLevelConfiguration), wanted.(*flowcontrolv1.PriorityLevelConfiguration)
	if !isMaintained(is) {
		return setAutoUpdate(is, false)
	}
	spec := should.Spec
	if is.Spec.Exempt != nil && spec.Exempt != nil {
		spec.Exempt = is.Spec.Exempt // administrators may change this field
	}
	changed := setAutoUpdate(is, true) || !equality.Semantic.DeepEqual(is.Spec, spec)
	is.Spec = spec
	return changed
}

func reviseFlowSchema(existing, wanted codec.Object) bool {
	is, should := existing.(*flowcontrolv1.FlowSchema), wanted.(*flowcontrolv1.FlowSchema)
	if !isMaintained(is) {
		return setAutoUpdate(is, false)
	}
	changed := setAutoUpdate(is, true) || !equality.Semantic.DeepEqual(is.Spec, should.Spec)
	is.Spec = should.Spec
	return changed
}

// setAutoUpdate sets the auto-update annotation and reports whether its value has changed.
func setAutoUpdate(obj codec.Object, enabled bool) bool {
	annotations := obj.GetAnnotations()
	if is, err := strconv.ParseBool(annotations[flowcontrolv1.AutoUpdateAnnotationKey]); err == nil && is == enabled {
		return false
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[flowcontrolv1.AutoUpdateAnnotationKey] = strconv.FormatBool(enabled)
	obj.SetAnnotations(annotations)
	return true
}
