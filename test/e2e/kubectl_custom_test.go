package e2e

import (
	"strings"
	"testing"
)

var defining = []kubectlBehavior{
	{"a definition and its objects", defineLife},
	{"a definition with server-side apply", defineServerSide},
}

// boats returns the manifest of a definition of the resource boats in a group.
func boats(group string) string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.` + group + `}
spec:
  group: ` + group + `
  scope: Namespaced
  names: {kind: Boat, plural: boats, singular: boat, shortNames: [bt], categories: [` + category(group) + `]}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}, scale: {specReplicasPath: .spec.sails, statusReplicasPath: .status.sails}}
      selectableFields: [{jsonPath: .spec.color}]
      additionalPrinterColumns:
        - {name: Color, type: string, jsonPath: .spec.color}
        - {name: Sails, type: integer, jsonPath: .spec.sails}
        - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
      schema:
        openAPIV3Schema:
          description: A Boat floats.
          type: object
          required: [spec]
          properties:
            spec:
              description: What it is made like.
              type: object
              required: [color]
              properties:
                color: {type: string, description: Seen from afar., enum: [red, white]}
                sails: {type: integer, default: 1, minimum: 0}
                crew: {type: array, items: {type: object, properties: {name: {type: string}}}}
            status: {type: object, properties: {sails: {type: integer}}}
`
}

// category returns a category of resources that no other test on the same server uses.
func category(group string) string { return "ships-of-" + strings.ReplaceAll(group, ".", "-") }

func boat(group, name, spec string) string {
	return "apiVersion: " + group + "/v1\nkind: Boat\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

func defineLife(t *testing.T, k *kubectl) {
	const group = "harbour.example.com"
	crd := k.file("crd.yaml", boats(group))
	k.printsAll([]string{"apply", "-f", crd}, "customresourcedefinition.apiextensions.k8s.io/boats."+group+" created")
	k.ok("wait", "--for=condition=Established", "crd/boats."+group, "--timeout=30s")
	k.printsAll([]string{"apply", "-f", crd}, "unchanged")
	for _, manifest := range []string{boat(group, "anna", "{color: red, crew: [{name: jim}]}"), boat(group, "otto", "{color: white, sails: 2}")} {
		k.okWith(manifest, "apply", "-f", "-")
	}
	k.failsWith(boat(group, "ugly", "{color: green}"), 1, `spec.color: Unsupported value: "green": supported values: "red", "white"`, "apply", "-f", "-")
	k.failsWith(boat(group, "odd", "{color: red, wheels: 4}"), 1, `unknown field "spec.wheels"`, "create", "-f", "-")
	k.matches(`(?m)^NAME +COLOR +SAILS +AGE\nanna +red +1 +\d+s\notto +white +2 +\d+s$`, "get", "boats")
	for _, name := range []string{"bt", "boat", "boats." + group, "boats.v1." + group, category(group)} {
		k.printsAll([]string{"get", name, "-o", "name"}, "boat."+group+"/anna")
	}
	k.prints("boat."+group+"/otto", "get", "bt", "--field-selector=spec.color=white", "-o", "name")
	k.printsAll(args("explain boat.spec --api-version="+group+"/v1"), "GROUP:      "+group, "KIND:       Boat", "What it is made like.", "  color\t<string> -required-", "  sails\t<integer>")
	k.printsAll(args("explain boat.spec.crew.name --api-version="+group+"/v1"), "FIELD: name <string>")
	k.ok("scale", "boat/anna", "--replicas=5")
	k.ok("patch", "boat", "anna", "--type=merge", "-p", `{"spec":{"color":"white"}}`)
	k.prints("white 5", "get", "boat", "anna", "-o", "jsonpath={.spec.color} {.spec.sails}")
	k.ok("patch", "boat", "anna", "--subresource=status", "--type=merge", "-p", `{"status":{"sails":5}}`)
	k.printsAll([]string{"describe", "boat", "anna"}, "Kind:         Boat", "Sails:")
	k.matches(`(?m)^boats +bt +`+group+`/v1 +true +Boat$`, "api-resources", "--api-group="+group)
	k.ok("delete", "crd", "boats."+group)
	k.fails(1, "the server doesn't have a resource type", "get", "boats."+group)
}

// defineServerSide checks that a definition that is too large for the annotation of client-side apply can be
// applied server-side.
func defineServerSide(t *testing.T, k *kubectl) {
	const group = "shipyard.example.com"
	large := strings.Replace(boats(group), "A Boat floats.", strings.Repeat("It floats. ", 30<<10), 1)
	crd := k.file("crd.yaml", large)
	k.fails(1, "metadata.annotations: Too long: may not be more than 262144 bytes", "apply", "-f", crd)
	k.ok("apply", "--server-side", "-f", crd)
	k.ok("wait", "--for=condition=Established", "crd/boats."+group, "--timeout=30s")
	k.okWith(boat(group, "anna", "{color: red}"), "apply", "--server-side", "-f", "-")
	k.failsWith(boat(group, "anna", "{color: white}"), 1, "conflict", "apply", "--server-side", "--field-manager=other", "-f", "-")
	k.ok("replace", "-f", crd)
	k.ok("delete", "crd", "boats."+group)
}
