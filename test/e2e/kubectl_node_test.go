package e2e

import "testing"

var keepingNodes = []kubectlBehavior{
	{"taints", taintNode},
	{"cordons and uncordons", cordonNode},
	{"drains pods by eviction", drainNode},
}

// createNode creates a node that is named after the namespace of the test, and returns its name.
func createNode(k *kubectl) string {
	k.okWith("apiVersion: v1\nkind: Node\nmetadata: {name: "+k.namespace+", labels: {kubernetes.io/hostname: "+k.namespace+"}}\n", "create", "-f", "-")
	return k.namespace
}

func taintNode(t *testing.T, k *kubectl) {
	node := createNode(k)
	k.prints("node/"+node+" tainted", "taint", "node", node, "dedicated=gpu:NoSchedule")
	k.fails(1, "already has dedicated taint(s) with same effect(s)", "taint", "node", node, "dedicated=cpu:NoSchedule")
	k.prints("gpu", "get", "node", node, "-o", "jsonpath={.spec.taints[?(@.key=='dedicated')].value}")
	k.prints("node/"+node+" untainted", "taint", "node", node, "dedicated-")
}

func cordonNode(t *testing.T, k *kubectl) {
	node := createNode(k)
	k.prints("node/"+node+" cordoned", "cordon", node)
	k.matches(`NotReady|Unknown,SchedulingDisabled`, "get", "node", node)
	k.prints("node/"+node+" already cordoned", "cordon", node)
	k.prints("node/"+node+" uncordoned", "uncordon", node)
}

func drainNode(t *testing.T, k *kubectl) {
	node := createNode(k)
	k.okWith("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: "+node+", terminationGracePeriodSeconds: 0, containers: [{name: c, image: nginx}]}\n",
		"create", "-f", "-")
	k.printsAll([]string{"drain", node, "--force", "--timeout=60s"}, "evicting pod "+k.namespace+"/p", "node/"+node+" drained")
	k.fails(1, "not found", "get", "pod", "p")
}
