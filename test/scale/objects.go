package main

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// soakGroup is the API group of the custom resources that a soak creates.
const soakGroup = "soak.example.com"

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

type fieldsOf = map[string]any

func namespaceObject(name string) any {
	return fieldsOf{"apiVersion": "v1", "kind": "Namespace", "metadata": fieldsOf{"name": name}}
}

// configMapObject returns a ConfigMap of about 300 bytes.
func configMapObject(name string, n int) fieldsOf {
	return fieldsOf{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": fieldsOf{"name": name, "labels": fieldsOf{"n": fmt.Sprint(n % 10)}},
		"data": fieldsOf{"n": fmt.Sprint(n), "text": "the quick brown fox jumps over the lazy dog and back again"},
	}
}

// widgetObject returns an object of a kind that definitionObject defines.
func widgetObject(kind, name string, n int) fieldsOf {
	return fieldsOf{
		"apiVersion": soakGroup + "/v1", "kind": kind, "metadata": fieldsOf{"name": name, "labels": fieldsOf{"n": fmt.Sprint(n % 10)}},
		"spec": fieldsOf{"number": n, "text": "the quick brown fox jumps over the lazy dog"},
	}
}

func podObject(name string, n int) fieldsOf {
	return fieldsOf{
		"apiVersion": "v1", "kind": "Pod", "metadata": fieldsOf{"name": name, "labels": fieldsOf{"n": fmt.Sprint(n % 10), "app": "soak"}},
		"spec": fieldsOf{"containers": []any{fieldsOf{
			"name": "c", "image": "registry.example.com/app:1", "resources": fieldsOf{"requests": fieldsOf{"cpu": "10m", "memory": "16Mi"}},
		}}},
	}
}

func leaseObject(name string, renewed time.Time) fieldsOf {
	return fieldsOf{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": fieldsOf{"name": name},
		"spec": fieldsOf{"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed.UTC().Format(metav1.RFC3339Micro)},
	}
}

func eventObject(namespace string, n int) fieldsOf {
	return fieldsOf{
		"apiVersion": "v1", "kind": "Event", "metadata": fieldsOf{"generateName": "soak-"},
		"involvedObject": fieldsOf{"kind": "Pod", "namespace": namespace, "name": fmt.Sprintf("pod-%d", n), "apiVersion": "v1"},
		"reason":         "Soaked", "message": "this happened", "type": "Normal",
	}
}

// definitionObject returns a definition with a schema, a CEL rule and a printer column.
func definitionObject(plural string) any {
	kind := kindOf(plural)
	return fieldsOf{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": fieldsOf{"name": plural + "." + soakGroup},
		"spec": fieldsOf{
			"group": soakGroup, "scope": "Namespaced", "names": fieldsOf{"plural": plural, "kind": kind},
			"versions": []any{fieldsOf{
				"name": "v1", "served": true, "storage": true,
				"schema": fieldsOf{"openAPIV3Schema": fieldsOf{"type": "object", "properties": fieldsOf{
					"spec": fieldsOf{
						"type":                     "object",
						"properties":               fieldsOf{"number": fieldsOf{"type": "integer"}, "text": fieldsOf{"type": "string", "maxLength": 100}},
						"x-kubernetes-validations": []any{fieldsOf{"rule": "self.number >= 0 && self.text != 'no'"}},
					},
				}}},
				"additionalPrinterColumns": []any{fieldsOf{"name": "Number", "type": "integer", "jsonPath": ".spec.number"}},
			}},
		},
	}
}

// kindOf returns the kind for a plural name.
func kindOf(plural string) string { return "K" + plural }

// policyObjects returns an admission policy, and its binding to one namespace.
func policyObjects(name, namespace string) (policy, binding any) {
	meta := fieldsOf{"name": name}
	policy = fieldsOf{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": meta,
		"spec": fieldsOf{
			"matchConstraints": fieldsOf{"resourceRules": []any{fieldsOf{
				"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"configmaps"},
			}}},
			"validations": []any{fieldsOf{"expression": "object.metadata.name != '" + name + "'"}},
		},
	}
	binding = fieldsOf{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": meta,
		"spec": fieldsOf{
			"policyName": name, "validationActions": []any{"Deny"},
			"matchResources": fieldsOf{"namespaceSelector": fieldsOf{"matchLabels": fieldsOf{"kubernetes.io/metadata.name": namespace}}},
		},
	}
	return policy, binding
}

// rightsObjects returns a role and a binding that allow the default service account to read ConfigMaps in its
// namespace.
func rightsObjects() (role, binding any) {
	meta := fieldsOf{"name": "reader"}
	role = fieldsOf{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta,
		"rules": []any{fieldsOf{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"get", "list", "watch"}}},
	}
	binding = fieldsOf{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta,
		"roleRef":  fieldsOf{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
		"subjects": []any{fieldsOf{"kind": "ServiceAccount", "name": "default"}},
	}
	return role, binding
}

// nodeObject returns a node with the status that a kubelet would report.
func nodeObject(name string) any {
	var images []any
	for i := range 10 {
		images = append(images, fieldsOf{"names": []any{fmt.Sprintf("registry.example.com/image-%d:1", i)}, "sizeBytes": 123456789 + i})
	}
	resources := fieldsOf{"cpu": "16", "memory": "64Gi", "pods": "110"}
	return fieldsOf{
		"apiVersion": "v1", "kind": "Node", "metadata": fieldsOf{"name": name, "labels": fieldsOf{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
		"spec": fieldsOf{"podCIDR": "10.0.0.0/24"},
		"status": fieldsOf{
			"capacity": resources, "allocatable": resources, "images": images, "conditions": nodeConditions(time.Now()),
			"addresses": []any{fieldsOf{"type": "InternalIP", "address": "10.1.2.3"}, fieldsOf{"type": "Hostname", "address": name}},
			"nodeInfo": fieldsOf{
				"kernelVersion": "6.1", "osImage": "Linux", "containerRuntimeVersion": "containerd://2.0", "kubeletVersion": "v1.37.0",
				"architecture": "amd64", "operatingSystem": "linux", "bootID": "b", "machineID": "m", "systemUUID": "s", "kubeProxyVersion": "",
			},
		},
	}
}

func nodeConditions(now time.Time) []any {
	var conditions []any
	for _, kind := range []string{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		status := "False"
		if kind == "Ready" {
			status = "True"
		}
		conditions = append(conditions, fieldsOf{
			"type": kind, "status": status, "reason": "KubeletHas", "message": "kubelet is as it should be", "lastHeartbeatTime": now.UTC().Format(time.RFC3339),
		})
	}
	return conditions
}

// nodeStatusPatch returns the patch that a kubelet sends if its status has not changed.
func nodeStatusPatch(now time.Time) any {
	return fieldsOf{"status": fieldsOf{"conditions": nodeConditions(now)}}
}

func boundPodObject(name, node string) any {
	pod := podObject(name, 0)
	pod["spec"].(fieldsOf)["nodeName"] = node
	return pod
}

func bindingObject(pod, node string) any {
	return fieldsOf{"apiVersion": "v1", "kind": "Binding", "metadata": fieldsOf{"name": pod}, "target": fieldsOf{"kind": "Node", "name": node}}
}
