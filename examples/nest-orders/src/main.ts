import 'reflect-metadata'
import { NestFactory } from '@nestjs/core'
import { AppModule } from './app.module'

async function bootstrap(): Promise<void> {
  const app = await NestFactory.create(AppModule, { logger: ['warn', 'error'] })
  app.enableShutdownHooks()
  await app.listen(process.env.PORT ?? 3000, '127.0.0.1')
  console.log(`Listening on ${await app.getUrl()}`)
}

void bootstrap()
