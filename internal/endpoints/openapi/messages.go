package openapi

// The messages of the protobuf forms of OpenAPI documents, as in gnostic: openapi.v2 and
// openapi.v3. A test compares them with the descriptors of gnostic. A line describes a message by the members of
// its JSON object. Each member has its field number and, after a colon, its type: text by default, bool,
// int, number, another message, or Any, which is the value as YAML. The prefix [] means a list of the type.
//    *=1:{Schema}  all other members, each a message of its name and a Schema
//    x-*=5:{Any}   the other members with the prefix x-
//    .=2:bool      not a member, but the value itself, if it has this type
//    .=2:Reference?$ref an object with the member $ref; the last choice whose condition is met applies, or else the choice without a condition
//    .=1:BodyParameter?in=body an object whose member in has this text
// Every document starts with the message Document.

const v2Messages = `
AdditionalPropertiesItem: .=1:Schema .=2:bool
ApiKeySecurity: type=1 name=2 in=3 description=4 x-*=5:{Any}
BasicAuthenticationSecurity: type=1 description=2 x-*=3:{Any}
BodyParameter: description=1 name=2 in=3 required=4:bool schema=5:Schema x-*=6:{Any}
Contact: name=1 url=2 email=3 x-*=4:{Any}
Definitions: *=1:{Schema}
Document: swagger=1 info=2:Info host=3 basePath=4 schemes=5:[]string consumes=6:[]string produces=7:[]string
  paths=8:Paths definitions=9:Definitions parameters=10:ParameterDefinitions responses=11:ResponseDefinitions
  security=12:[]SecurityRequirement securityDefinitions=13:SecurityDefinitions tags=14:[]Tag
  externalDocs=15:ExternalDocs x-*=16:{Any}
Examples: *=1:{Any}
ExternalDocs: description=1 url=2 x-*=3:{Any}
FileSchema: format=1 title=2 description=3 default=4:Any required=5:[]string type=6 readOnly=7:bool
  externalDocs=8:ExternalDocs example=9:Any x-*=10:{Any}
FormDataParameterSubSchema: required=1:bool in=2 description=3 name=4 allowEmptyValue=5:bool type=6 format=7
  items=8:PrimitivesItems collectionFormat=9 default=10:Any maximum=11:number exclusiveMaximum=12:bool
  minimum=13:number exclusiveMinimum=14:bool maxLength=15:int minLength=16:int pattern=17 maxItems=18:int
  minItems=19:int uniqueItems=20:bool enum=21:[]Any multipleOf=22:number x-*=23:{Any}
Header: type=1 format=2 items=3:PrimitivesItems collectionFormat=4 default=5:Any maximum=6:number
  exclusiveMaximum=7:bool minimum=8:number exclusiveMinimum=9:bool maxLength=10:int minLength=11:int pattern=12
  maxItems=13:int minItems=14:int uniqueItems=15:bool enum=16:[]Any multipleOf=17:number description=18
  x-*=19:{Any}
HeaderParameterSubSchema: required=1:bool in=2 description=3 name=4 type=5 format=6 items=7:PrimitivesItems
  collectionFormat=8 default=9:Any maximum=10:number exclusiveMaximum=11:bool minimum=12:number
  exclusiveMinimum=13:bool maxLength=14:int minLength=15:int pattern=16 maxItems=17:int minItems=18:int
  uniqueItems=19:bool enum=20:[]Any multipleOf=21:number x-*=22:{Any}
Headers: *=1:{Header}
Info: title=1 version=2 description=3 termsOfService=4 contact=5:Contact license=6:License x-*=7:{Any}
ItemsItem: .=1:Schema
JsonReference: $ref=1 description=2
License: name=1 url=2 x-*=3:{Any}
NonBodyParameter: .=1:HeaderParameterSubSchema?in=header .=2:FormDataParameterSubSchema?in=formData
  .=3:QueryParameterSubSchema .=4:PathParameterSubSchema?in=path
Oauth2AccessCodeSecurity: type=1 flow=2 scopes=3:Oauth2Scopes authorizationUrl=4 tokenUrl=5 description=6
  x-*=7:{Any}
Oauth2ApplicationSecurity: type=1 flow=2 scopes=3:Oauth2Scopes tokenUrl=4 description=5 x-*=6:{Any}
Oauth2ImplicitSecurity: type=1 flow=2 scopes=3:Oauth2Scopes authorizationUrl=4 description=5 x-*=6:{Any}
Oauth2PasswordSecurity: type=1 flow=2 scopes=3:Oauth2Scopes tokenUrl=4 description=5 x-*=6:{Any}
Oauth2Scopes: *=1:{String}
Operation: tags=1:[]string summary=2 description=3 externalDocs=4:ExternalDocs operationId=5 produces=6:[]string
  consumes=7:[]string parameters=8:[]ParametersItem responses=9:Responses schemes=10:[]string deprecated=11:bool
  security=12:[]SecurityRequirement x-*=13:{Any}
Parameter: .=1:BodyParameter?in=body .=2:NonBodyParameter
ParameterDefinitions: *=1:{Parameter}
ParametersItem: .=1:Parameter .=2:JsonReference?$ref
PathItem: $ref=1 get=2:Operation put=3:Operation post=4:Operation delete=5:Operation options=6:Operation
  head=7:Operation patch=8:Operation parameters=9:[]ParametersItem x-*=10:{Any}
PathParameterSubSchema: required=1:bool in=2 description=3 name=4 type=5 format=6 items=7:PrimitivesItems
  collectionFormat=8 default=9:Any maximum=10:number exclusiveMaximum=11:bool minimum=12:number
  exclusiveMinimum=13:bool maxLength=14:int minLength=15:int pattern=16 maxItems=17:int minItems=18:int
  uniqueItems=19:bool enum=20:[]Any multipleOf=21:number x-*=22:{Any}
Paths: x-*=1:{Any} *=2:{PathItem}
PrimitivesItems: type=1 format=2 items=3:PrimitivesItems collectionFormat=4 default=5:Any maximum=6:number
  exclusiveMaximum=7:bool minimum=8:number exclusiveMinimum=9:bool maxLength=10:int minLength=11:int pattern=12
  maxItems=13:int minItems=14:int uniqueItems=15:bool enum=16:[]Any multipleOf=17:number x-*=18:{Any}
Properties: *=1:{Schema}
QueryParameterSubSchema: required=1:bool in=2 description=3 name=4 allowEmptyValue=5:bool type=6 format=7
  items=8:PrimitivesItems collectionFormat=9 default=10:Any maximum=11:number exclusiveMaximum=12:bool
  minimum=13:number exclusiveMinimum=14:bool maxLength=15:int minLength=16:int pattern=17 maxItems=18:int
  minItems=19:int uniqueItems=20:bool enum=21:[]Any multipleOf=22:number x-*=23:{Any}
Response: description=1 schema=2:SchemaItem headers=3:Headers examples=4:Examples x-*=5:{Any}
ResponseDefinitions: *=1:{Response}
ResponseValue: .=1:Response .=2:JsonReference?$ref
Responses: *=1:{ResponseValue} x-*=2:{Any}
Schema: $ref=1 format=2 title=3 description=4 default=5:Any multipleOf=6:number maximum=7:number
  exclusiveMaximum=8:bool minimum=9:number exclusiveMinimum=10:bool maxLength=11:int minLength=12:int pattern=13
  maxItems=14:int minItems=15:int uniqueItems=16:bool maxProperties=17:int minProperties=18:int
  required=19:[]string enum=20:[]Any additionalProperties=21:AdditionalPropertiesItem type=22:TypeItem
  items=23:ItemsItem allOf=24:[]Schema properties=25:Properties discriminator=26 readOnly=27:bool xml=28:Xml
  externalDocs=29:ExternalDocs example=30:Any x-*=31:{Any}
SchemaItem: .=1:Schema .=2:FileSchema?type=file
SecurityDefinitions: *=1:{SecurityDefinitionsItem}
SecurityDefinitionsItem: .=1:BasicAuthenticationSecurity .=2:ApiKeySecurity?type=apiKey
  .=3:Oauth2ImplicitSecurity?flow=implicit .=4:Oauth2PasswordSecurity?flow=password
  .=5:Oauth2ApplicationSecurity?flow=application .=6:Oauth2AccessCodeSecurity?flow=accessCode
SecurityRequirement: *=1:{StringArray}
StringArray: .=1:[]string
Tag: name=1 description=2 externalDocs=3:ExternalDocs x-*=4:{Any}
TypeItem: .=1:[]string
Xml: name=1 namespace=2 prefix=3 attribute=4:bool wrapped=5:bool x-*=6:{Any}
`

const v3Messages = `
AdditionalPropertiesItem: .=1:SchemaOrReference .=2:bool
AnyOrExpression: .=2:Expression
Callback: *=1:{PathItem} x-*=2:{Any}
CallbackOrReference: .=1:Callback .=2:Reference?$ref
CallbacksOrReferences: *=1:{CallbackOrReference}
Components: schemas=1:SchemasOrReferences responses=2:ResponsesOrReferences parameters=3:ParametersOrReferences
  examples=4:ExamplesOrReferences requestBodies=5:RequestBodiesOrReferences headers=6:HeadersOrReferences
  securitySchemes=7:SecuritySchemesOrReferences links=8:LinksOrReferences callbacks=9:CallbacksOrReferences
  x-*=10:{Any}
Contact: name=1 url=2 email=3 x-*=4:{Any}
DefaultType: .=1:number .=2:bool .=3
Discriminator: propertyName=1 mapping=2:Strings x-*=3:{Any}
Document: openapi=1 info=2:Info servers=3:[]Server paths=4:Paths components=5:Components
  security=6:[]SecurityRequirement tags=7:[]Tag externalDocs=8:ExternalDocs x-*=9:{Any}
Encoding: contentType=1 headers=2:HeadersOrReferences style=3 explode=4:bool allowReserved=5:bool x-*=6:{Any}
Encodings: *=1:{Encoding}
Example: summary=1 description=2 value=3:Any externalValue=4 x-*=5:{Any}
ExampleOrReference: .=1:Example .=2:Reference?$ref
ExamplesOrReferences: *=1:{ExampleOrReference}
Expression: *=1:{Any}
ExternalDocs: description=1 url=2 x-*=3:{Any}
Header: description=1 required=2:bool deprecated=3:bool allowEmptyValue=4:bool style=5 explode=6:bool
  allowReserved=7:bool schema=8:SchemaOrReference example=9:Any examples=10:ExamplesOrReferences
  content=11:MediaTypes x-*=12:{Any}
HeaderOrReference: .=1:Header .=2:Reference?$ref
HeadersOrReferences: *=1:{HeaderOrReference}
Info: title=1 description=2 termsOfService=3 contact=4:Contact license=5:License version=6 x-*=7:{Any} summary=8
ItemsItem: .=1:SchemaOrReference
License: name=1 url=2 x-*=3:{Any}
Link: operationRef=1 operationId=2 parameters=3:AnyOrExpression requestBody=4:AnyOrExpression description=5
  server=6:Server x-*=7:{Any}
LinkOrReference: .=1:Link .=2:Reference?$ref
LinksOrReferences: *=1:{LinkOrReference}
MediaType: schema=1:SchemaOrReference example=2:Any examples=3:ExamplesOrReferences encoding=4:Encodings
  x-*=5:{Any}
MediaTypes: *=1:{MediaType}
OauthFlow: authorizationUrl=1 tokenUrl=2 refreshUrl=3 scopes=4:Strings x-*=5:{Any}
OauthFlows: implicit=1:OauthFlow password=2:OauthFlow clientCredentials=3:OauthFlow
  authorizationCode=4:OauthFlow x-*=5:{Any}
Operation: tags=1:[]string summary=2 description=3 externalDocs=4:ExternalDocs operationId=5
  parameters=6:[]ParameterOrReference requestBody=7:RequestBodyOrReference responses=8:Responses
  callbacks=9:CallbacksOrReferences deprecated=10:bool security=11:[]SecurityRequirement servers=12:[]Server
  x-*=13:{Any}
Parameter: name=1 in=2 description=3 required=4:bool deprecated=5:bool allowEmptyValue=6:bool style=7
  explode=8:bool allowReserved=9:bool schema=10:SchemaOrReference example=11:Any
  examples=12:ExamplesOrReferences content=13:MediaTypes x-*=14:{Any}
ParameterOrReference: .=1:Parameter .=2:Reference?$ref
ParametersOrReferences: *=1:{ParameterOrReference}
PathItem: $ref=1 summary=2 description=3 get=4:Operation put=5:Operation post=6:Operation delete=7:Operation
  options=8:Operation head=9:Operation patch=10:Operation trace=11:Operation servers=12:[]Server
  parameters=13:[]ParameterOrReference x-*=14:{Any}
Paths: *=1:{PathItem} x-*=2:{Any}
Properties: *=1:{SchemaOrReference}
Reference: $ref=1 summary=2 description=3
RequestBodiesOrReferences: *=1:{RequestBodyOrReference}
RequestBody: description=1 content=2:MediaTypes required=3:bool x-*=4:{Any}
RequestBodyOrReference: .=1:RequestBody .=2:Reference?$ref
Response: description=1 headers=2:HeadersOrReferences content=3:MediaTypes links=4:LinksOrReferences x-*=5:{Any}
ResponseOrReference: .=1:Response .=2:Reference?$ref
Responses: default=1:ResponseOrReference *=2:{ResponseOrReference} x-*=3:{Any}
ResponsesOrReferences: *=1:{ResponseOrReference}
Schema: nullable=1:bool discriminator=2:Discriminator readOnly=3:bool writeOnly=4:bool xml=5:Xml
  externalDocs=6:ExternalDocs example=7:Any deprecated=8:bool title=9 multipleOf=10:number maximum=11:number
  exclusiveMaximum=12:bool minimum=13:number exclusiveMinimum=14:bool maxLength=15:int minLength=16:int
  pattern=17 maxItems=18:int minItems=19:int uniqueItems=20:bool maxProperties=21:int minProperties=22:int
  required=23:[]string enum=24:[]Any type=25 allOf=26:[]SchemaOrReference oneOf=27:[]SchemaOrReference
  anyOf=28:[]SchemaOrReference not=29:Schema items=30:ItemsItem properties=31:Properties
  additionalProperties=32:AdditionalPropertiesItem default=33:DefaultType description=34 format=35 x-*=36:{Any}
SchemaOrReference: .=1:Schema .=2:Reference?$ref
SchemasOrReferences: *=1:{SchemaOrReference}
SecurityRequirement: *=1:{StringArray}
SecurityScheme: type=1 description=2 name=3 in=4 scheme=5 bearerFormat=6 flows=7:OauthFlows openIdConnectUrl=8
  x-*=9:{Any}
SecuritySchemeOrReference: .=1:SecurityScheme .=2:Reference?$ref
SecuritySchemesOrReferences: *=1:{SecuritySchemeOrReference}
Server: url=1 description=2 variables=3:ServerVariables x-*=4:{Any}
ServerVariable: enum=1:[]string default=2 description=3 x-*=4:{Any}
ServerVariables: *=1:{ServerVariable}
StringArray: .=1:[]string
Strings: *=1:{String}
Tag: name=1 description=2 externalDocs=3:ExternalDocs x-*=4:{Any}
Xml: name=1 namespace=2 prefix=3 attribute=4:bool wrapped=5:bool x-*=6:{Any}
`
