kubectl apply --server-side -f docs/examples/backups.yaml     # a custom resource with a CEL rule
kubectl apply --server-side -f docs/examples/nightly.yaml
kubectl get backups                                           # the default of "keep" is 7
kubectl patch backup nightly --type=merge -p '{"spec":{"keep":99}}'
sed 's/0 3/0 4/' docs/examples/nightly.yaml | kubectl apply --server-side --field-manager=ci -f - 2>&1 | head -1
sed "s/UID/$(kubectl get backup nightly -o jsonpath={.metadata.uid})/" docs/examples/report.yaml | kubectl apply --server-side -f -
kubectl delete backup nightly
kubectl get configmap report                                  # the garbage collector has deleted it
