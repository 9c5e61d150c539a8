package e2e

import (
	"regexp"
	"strings"
	"testing"
)

var explaining = []kubectlBehavior{
	{"explains a kind", explainKind},
	{"explains a nested field", explainField},
	{"explains recursively", explainRecursively},
	{"explains an older version", explainVersion},
	{"lists API resources", apiResources},
	{"lists API versions", apiVersions},
	{"prints the cluster info", clusterInfo},
	{"prints the version", serverVersion},
}

func explainKind(t *testing.T, k *kubectl) {
	k.printsAll(args("explain deployment"), "GROUP:      apps", "KIND:       Deployment", "VERSION:    v1",
		"Deployment enables declarative updates for Pods and ReplicaSets", "  spec\t<DeploymentSpec>", "  status\t<DeploymentStatus>")
	k.fails(1, `the server doesn't have a resource type "nopes"`, "explain", "nopes")
}

func explainField(t *testing.T, k *kubectl) {
	k.printsAll(args("explain pod.spec.containers.resources.limits"), "FIELD: limits <map[string]Quantity>")
	k.printsAll(args("explain service.spec.type"), "FIELD: type <string>\nENUM:\n    ClusterIP\n    ExternalName\n    LoadBalancer\n    NodePort\n")
	k.printsAll(args("explain pods.spec.containers"), "FIELD: containers <[]Container>", "  name\t<string> -required-")
	k.fails(1, `field "nope" does not exist`, "explain", "pod.spec.nope")
}

func explainRecursively(t *testing.T, k *kubectl) {
	out := k.printsAll(args("explain ingress --recursive"), "  spec\t<IngressSpec>", "      host\t<string>", "          enum: Exact, ImplementationSpecific, Prefix")
	if strings.Count(out, "\n") < 50 {
		t.Errorf("only %d lines:\n%s", strings.Count(out, "\n"), out)
	}
}

func explainVersion(t *testing.T, k *kubectl) {
	k.printsAll(args("explain hpa --api-version=autoscaling/v1"), "VERSION:    v1", "  spec\t<HorizontalPodAutoscalerSpec>")
	k.printsAll(args("explain hpa.spec.targetCPUUtilizationPercentage --api-version=autoscaling/v1"), "targetCPUUtilizationPercentage <integer>")
}

func apiResources(t *testing.T, k *kubectl) {
	out := k.ok("api-resources")
	for _, row := range []string{
		`pods +po +v1 +true +Pod`, `deployments +deploy +apps/v1 +true +Deployment`, `nodes +no +v1 +false +Node`,
		`customresourcedefinitions +crd,crds +apiextensions.k8s.io/v1 +false +CustomResourceDefinition`,
		`cronjobs +cj +batch/v1 +true +CronJob`, `horizontalpodautoscalers +hpa +autoscaling/v2 +true +HorizontalPodAutoscaler`,
	} {
		if !regexp.MustCompile(`(?m)^` + row + `$`).MatchString(out) {
			t.Errorf("no row like %q in\n%s", row, out)
		}
	}
	k.matches(`(?m)^deployments +deploy +apps/v1 +true +Deployment +create,delete,deletecollection,get,list,patch,update,watch +all$`,
		"api-resources", "--api-group=apps", "-o", "wide")
	k.printsAll(args("api-resources --namespaced=false -o name"), "nodes\n", "clusterroles.rbac.authorization.k8s.io\n")
	if out := k.ok(args("api-resources --verbs=list,get --namespaced=true -o name")...); strings.Contains(out, "bindings\n") && !strings.Contains(out, "rolebindings") {
		t.Errorf("resources that cannot be listed are in\n%s", out)
	}
	k.printsAll(args("api-resources --categories=all -o name"), "pods\n", "services\n", "jobs.batch\n")
}

func apiVersions(t *testing.T, k *kubectl) {
	k.printsAll(args("api-versions"), "v1\n", "apps/v1\n", "autoscaling/v1\n", "autoscaling/v2\n", "networking.k8s.io/v1\n", "resource.k8s.io/v1\n")
}

func clusterInfo(t *testing.T, k *kubectl) {
	k.printsAll(args("cluster-info"), "Kubernetes control plane", "https://127.0.0.1:")
}

func serverVersion(t *testing.T, k *kubectl) {
	// kubectl version exits with an error in a test binary, because the version of the client is unknown.
	if o := k.run(t.Context(), "", "version"); !regexp.MustCompile(`(?m)^Server Version: v1\.3\d\.\d+`).MatchString(o.stdout) {
		t.Errorf("kubectl version printed\n%s%s", o.stdout, o.stderr)
	}
	k.printsAll(args("get --raw /version"), `"major": "1"`, `"gitVersion": "v1.3`, `"goVersion": "go`)
}
