package e2e

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/cmd"
)

var creating = []kubectlBehavior{
	{"creates each kind from flags", createFromFlags},
	{"creates config maps and secrets from files", createFromFiles},
	{"creates RBAC objects", createRBAC},
	{"creates a job from a cron job", createJobFromCronJob},
	{"generates names", createGenerateName},
	{"rejects existing names", createExisting},
	{"runs a pod with a dry run", runDry},
	{"runs a pod", runPod},
	{"exposes a deployment", expose},
	{"autoscales a deployment", autoscale},
	{"prints objects without creating them", createDryClient},
	{"creates a token of a service account", createToken},
	{"acts as another user", actAs},
}

// createFromFlags creates an object of each kind that kubectl can create without a manifest.
func createFromFlags(t *testing.T, k *kubectl) {
	certificate, key := k.keyPair()
	own := k.namespace + "-" // prefix of the names of cluster-scoped objects
	lines := map[string]string{
		"create clusterrole " + own + "read --verb=get --resource=nodes":                  "clusterrole.rbac.authorization.k8s.io/" + own + "read created",
		"create clusterrolebinding " + own + "read --clusterrole=view --group=staff":      "clusterrolebinding.rbac.authorization.k8s.io/" + own + "read created",
		"create configmap settings --from-literal=a=b":                                    "configmap/settings created",
		"create cronjob often --image=busybox --schedule=*/5_*_*_*_*":                     "cronjob.batch/often created",
		"create deployment web --image=nginx --port=80 --replicas=2":                      "deployment.apps/web created",
		"create ingress web --rule=example.com/*=web:80 --class=nginx":                    "ingress.networking.k8s.io/web created",
		"create job once --image=busybox -- echo done":                                    "job.batch/once created",
		"create namespace " + own + "more":                                                "namespace/" + own + "more created",
		"create poddisruptionbudget web --selector=app=web --min-available=1":             "poddisruptionbudget.policy/web created",
		"create priorityclass " + own + "high --value=1000":                               "priorityclass.scheduling.k8s.io/" + own + "high created",
		"create quota small --hard=pods=300,secrets=900":                                  "resourcequota/small created",
		"create role reader --verb=get --resource=pods":                                   "role.rbac.authorization.k8s.io/reader created",
		"create rolebinding reader --clusterrole=view --user=jane":                        "rolebinding.rbac.authorization.k8s.io/reader created",
		"create secret docker-registry pull --docker-username=u --docker-password=p":      "secret/pull created",
		"create secret generic word --from-literal=a=b --type=example.com/word":           "secret/word created",
		"create secret tls front --cert=" + certificate + " --key=" + key:                 "secret/front created",
		"create service clusterip plain --tcp=80:8080":                                    "service/plain created",
		"create service externalname away --external-name=example.com":                    "service/away created",
		"create service loadbalancer balanced --tcp=443:8443":                             "service/balanced created",
		"create service nodeport outside --tcp=80":                                        "service/outside created",
		"create serviceaccount robot":                                                     "serviceaccount/robot created",
		"create token default --duration=10m --output=jsonpath={.spec.expirationSeconds}": "600",
	}
	for _, command := range createCommands(cmd.NewDefaultKubectlCommand()) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(lines)), func(line string) bool { return strings.HasPrefix(line, command+" ") }) {
			t.Errorf("kubectl %s is not tested", command)
		}
	}
	k.okWith("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\n", "apply", "-f", "-")
	for line, want := range lines {
		commandLine := args(line)
		for i := range commandLine {
			if strings.HasPrefix(commandLine[i], "--schedule") {
				commandLine[i] = strings.ReplaceAll(commandLine[i], "_", " ")
			}
		}
		k.prints(want, commandLine...)
	}
	k.prints("*/5 * * * *", "get", "cronjob", "often", "-o", "jsonpath={.spec.schedule}")
	k.prints("kubernetes.io/tls", "get", "secret", "front", "-o", "jsonpath={.type}")
}

// createCommands returns the subcommands of "kubectl create" that create an object and have no subcommands.
func createCommands(root *cobra.Command) []string {
	create, _, err := root.Find([]string{"create"})
	if err != nil {
		panic(err) // kubectl without create
	}
	var leaves func(c *cobra.Command) []string
	leaves = func(c *cobra.Command) (found []string) {
		for _, sub := range c.Commands() {
			found = append(found, leaves(sub)...)
		}
		if len(found) == 0 {
			return []string{strings.TrimPrefix(c.CommandPath(), "kubectl ")}
		}
		return found
	}
	return leaves(create)
}

// keyPair writes a certificate and its key to files, and returns the paths of the files.
func (k *kubectl) keyPair() (certificate, key string) {
	k.t.Helper()
	pair := certificateFor(k.t, "example.com")
	der := must[[]byte](k.t)(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))
	return k.file("tls.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))),
		k.file("tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

func createFromFiles(t *testing.T, k *kubectl) {
	text := k.file("app.properties", "color=blue\n")
	binary := k.file("blob", "\xff\xfe\x00")
	k.ok("create", "configmap", "files", "--from-file="+text, "--from-file=renamed="+text, "--from-file="+binary, "--from-literal=x=1")
	k.prints("color=blue", "get", "cm", "files", "-o", `jsonpath={.data.renamed}`)
	k.prints("//4A", "get", "cm", "files", "-o", `jsonpath={.binaryData.blob}`)
	env := k.file("env", "A=1\nB=two\n")
	k.ok("create", "configmap", "env", "--from-env-file="+env)
	k.prints(`{"A":"1","B":"two"}`, "get", "cm", "env", "-o", "jsonpath={.data}")
	k.ok("create", "secret", "generic", "s", "--from-file=key="+text)
	k.prints("Y29sb3I9Ymx1ZQo=", "get", "secret", "s", "-o", "jsonpath={.data.key}")
	k.ok(args("create secret docker-registry pull --docker-server=r.example.com --docker-username=u --docker-password=p")...)
	k.prints("kubernetes.io/dockerconfigjson", "get", "secret", "pull", "-o", "jsonpath={.type}")
}

func createRBAC(t *testing.T, k *kubectl) {
	k.ok(args("create role reader --verb=get,list --resource=pods,deployments.apps")...)
	k.prints(`[{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]},{"apiGroups":["apps"],"resources":["deployments"],"verbs":["get","list"]}]`,
		"get", "role", "reader", "-o", "jsonpath={.rules}")
	k.ok("create", "rolebinding", "read", "--role=reader", "--serviceaccount="+k.namespace+":default")
	cluster := k.namespace + "-raw"
	k.ok("create", "clusterrole", cluster, "--verb=get", "--non-resource-url=/metrics")
	k.ok("create", "clusterrolebinding", cluster, "--clusterrole="+cluster, "--user=jane", "--group=staff")
	k.prints("jane staff", "get", "clusterrolebinding", cluster, "-o", "jsonpath={.subjects[*].name}")
}

func createJobFromCronJob(t *testing.T, k *kubectl) {
	k.ok("create", "cronjob", "nightly", "--image=busybox", "--schedule=0 0 * * *")
	k.ok(args("create job now --from=cronjob/nightly")...)
	k.prints("manual nightly", "get", "job", "now", "-o",
		`jsonpath={.metadata.annotations.cronjob\.kubernetes\.io/instantiate} {.metadata.ownerReferences[0].name}`)
}

func createGenerateName(t *testing.T, k *kubectl) {
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-}\n"
	for range 2 {
		if out := k.okWith(manifest, "create", "-f", "-"); !strings.HasPrefix(out, "configmap/made-") || len(out) != len("configmap/made-xxxxx created\n") {
			t.Errorf("create prints %q", out)
		}
	}
}

func createExisting(t *testing.T, k *kubectl) {
	k.okWith(configMap("c", "a: b"), "create", "-f", "-")
	k.failsWith(configMap("c", "a: b"), 1, `Error from server (AlreadyExists): error when creating "STDIN": configmaps "c" already exists`, "create", "-f", "-")
	k.fails(1, `namespaces "nowhere" not found`, "create", "configmap", "x", "--namespace=nowhere")
}

func runDry(t *testing.T, k *kubectl) {
	k.prints("pod/p created (server dry run)", args("run p --image=nginx --dry-run=server")...)
	k.prints("Always ClusterFirst default-scheduler", "run", "p", "--image=nginx", "--dry-run=server", "-o",
		"jsonpath={.spec.containers[0].imagePullPolicy} {.spec.dnsPolicy} {.spec.schedulerName}")
	k.fails(1, "not found", "get", "pod", "p")
}

func runPod(t *testing.T, k *kubectl) {
	k.prints("pod/p created", args("run p --image=nginx:1 --port=80 --env=A=b --labels=x=y --restart=Never")...)
	k.matches(`^NAME +READY +STATUS +RESTARTS +AGE\np +0/1 +Pending +0 +\d+s\n$`, "get", "pod", "p")
	k.prints("Never y b", "get", "pod", "p", "-o", "jsonpath={.spec.restartPolicy} {.metadata.labels.x} {.spec.containers[0].env[0].value}")
}

func expose(t *testing.T, k *kubectl) {
	k.ok(args("create deployment web --image=nginx --port=8080")...)
	k.prints("service/web exposed", args("expose deployment web --port=80 --target-port=8080")...)
	k.prints(`{"app":"web"} 80 8080`, "get", "service", "web", "-o", "jsonpath={.spec.selector} {.spec.ports[0].port} {.spec.ports[0].targetPort}")
}

func autoscale(t *testing.T, k *kubectl) {
	k.ok(args("create deployment web --image=nginx")...)
	k.prints("horizontalpodautoscaler.autoscaling/web autoscaled", args("autoscale deployment web --min=2 --max=5 --cpu=80%")...)
	k.prints("2 5", "get", "hpa", "web", "-o", "jsonpath={.spec.minReplicas} {.spec.maxReplicas}")
	k.matches(`NAME +REFERENCE +TARGETS +MINPODS +MAXPODS +REPLICAS +AGE\nweb +Deployment/web +cpu: <unknown>/80% +2 +5 +0 +`, "get", "hpa", "web")
}

func createDryClient(t *testing.T, k *kubectl) {
	k.printsAll(args("create deployment web --image=nginx --dry-run=client -o yaml"), "kind: Deployment", "image: nginx")
	k.fails(1, "not found", "get", "deployment", "web")
}

// createToken checks that a token is valid until the Secret to which the token is bound is deleted.
func createToken(t *testing.T, k *kubectl) {
	k.ok("create", "serviceaccount", "robot")
	k.ok("create", "secret", "generic", "lease")
	token := strings.TrimSpace(k.ok("create", "token", "robot", "--duration=20m", "--audience=vault", "--bound-object-kind=Secret", "--bound-object-name=lease"))
	if strings.Count(token, ".") != 2 {
		t.Fatalf("no token: %q", token)
	}
	review := k.file("review.yaml", "apiVersion: authentication.k8s.io/v1\nkind: TokenReview\nspec: {audiences: [vault], token: "+token+"}\n")
	k.prints("system:serviceaccount:"+k.namespace+":robot", "create", "-f", review, "-o", "jsonpath={.status.user.username}")
	k.ok("delete", "secret", "lease")
	k.prints("[invalid bearer token, service account token has been invalidated]", "create", "-f", review, "-o", "jsonpath={.status.error}")
}

// actAs checks that a user who impersonates another user has only the other user's permissions.
func actAs(t *testing.T, k *kubectl) {
	k.prints(`jane ["a","b","system:authenticated"]`, "auth", "whoami", "--as=jane", "--as-group=a", "--as-group=b",
		"-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}")
	k.fails(1, `User "jane" cannot list resource "secrets"`, "get", "secrets", "--as=jane")
	k.ok("create", "rolebinding", "jane", "--clusterrole=edit", "--user=jane")
	k.ok("get", "secrets", "--as=jane")
}
