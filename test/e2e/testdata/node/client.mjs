// A test as a user of @kubernetes/client-node writes one; "mainstay run -- npm test" runs it.
import assert from 'node:assert/strict';
import * as k8s from '@kubernetes/client-node';

const namespace = 'default';
const clientOf = (context) => {
  const config = new k8s.KubeConfig();
  config.loadFromDefault();
  if (context) config.setCurrentContext(context);
  return [config, config.makeApiClient(k8s.CoreV1Api)];
};

const [config, core] = clientOf();
await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'settings' }, data: { colour: 'blue' } } });
const read = await core.readNamespacedConfigMap({ namespace, name: 'settings' });
assert.equal(read.data.colour, 'blue');

const [, jane] = clientOf('jane');
await assert.rejects(jane.listNamespacedSecret({ namespace }), (e) => e.code === 403);

// An informer lists and watches.
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () => core.listNamespacedConfigMap({ namespace }));
const deleted = new Promise((resolve, reject) => {
  informer.on('add', (o) => {
    if (o.metadata.name === 'settings') core.deleteNamespacedConfigMap({ namespace, name: 'settings' }).catch(reject);
  });
  informer.on('delete', (o) => resolve(o.metadata.name));
  informer.on('error', reject);
});
await informer.start();
assert.equal(await deleted, 'settings');
await informer.stop();
console.log('client-node is content');
